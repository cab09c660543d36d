"""Writes dec.safetensors: DEC's clustering loss (Xie, Girshick and Farhadi, 2016) and its gradients, by PyTorch's
automatic differentiation in double precision.

Each case holds the inputs (z, means, targets) and what is expected: KL(P || Q) in nats per row, and the gradient of
it for z and for the means. Needs numpy, torch, safetensors. Run it in this folder.
"""

import numpy as np
import torch
from safetensors.numpy import save_file

rng = np.random.default_rng(6)


def soft_clusters(z, means):
    weights = 1 / (1 + ((z[:, None] - means[None]) ** 2).sum(-1))
    return weights / weights.sum(-1, keepdim=True)


def sharpened(q):
    p = q**2 / q.sum(0)
    return p / p.sum(-1, keepdim=True)


def single(values):
    return torch.tensor(np.asarray(values).astype(np.float32), dtype=torch.float64)


tensors = {}
for case, (b, c, j, spread) in {"small": (6, 5, 3, 1.0), "wide": (40, 11, 10, 4.0), "one mean": (3, 1, 2, 1.0)}.items():
    z = single(rng.normal(size=(b, j)) * spread).requires_grad_()
    means = single(rng.normal(size=(c, j)) * spread).requires_grad_()
    # The targets of an earlier state, as in training; one row belongs to its first cluster alone.
    targets = sharpened(soft_clusters(z.detach() + 0.5, means.detach()))
    targets[0] = torch.eye(c, dtype=torch.float64)[0]
    targets = single(targets)
    q = soft_clusters(z, means)
    loss = (torch.xlogy(targets, targets) - targets * q.log()).sum(-1).mean()
    loss.backward()
    for name, value in {"z": z, "means": means, "targets": targets}.items():
        tensors[f"{case}/{name}"] = value.detach().numpy().astype(np.float32)
    tensors[f"{case}/loss"] = loss.detach().numpy().reshape(1)
    tensors[f"{case}/gradient/z"], tensors[f"{case}/gradient/means"] = z.grad.numpy(), means.grad.numpy()
save_file(tensors, "dec.safetensors")
