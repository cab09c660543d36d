"""Writes adam.safetensors: several steps of torch.optim.Adam in double precision, two groups with learning rates
of their own and a part that is not trained.

Needs numpy, torch, safetensors. Run it in this folder.
"""

import numpy as np
import torch
from safetensors.numpy import save_file

STEPS, P = 7, 96
GROUPS = [(slice(0, 50), 2e-3), (slice(64, 96), 1e-2)]  # 50..64 stays as it is
rng = np.random.default_rng(8)
start = rng.normal(size=P).astype(np.float32)
# Gradients of every size: those near the root of epsilon depend most on where epsilon is added.
gradients = (rng.normal(size=(STEPS, P)) * 10.0 ** rng.uniform(-6, 1, size=P)).astype(np.float32)



def steps(beta1):
    """The parameters after each step."""
    parts = [torch.tensor(start[part].astype(np.float64)).requires_grad_() for part, _ in GROUPS]
    groups = [{"params": [p], "lr": lr} for p, (_, lr) in zip(parts, GROUPS)]
    adam = torch.optim.Adam(groups, betas=(beta1, 0.999), eps=1e-4)
    after = np.empty((STEPS, P))
    for step in range(STEPS):
        after[step] = start
        for p, (part, _) in zip(parts, GROUPS):
            p.grad = torch.tensor(gradients[step, part].astype(np.float64))
        adam.step()
        for p, (part, _) in zip(parts, GROUPS):
            after[step, part] = p.detach().numpy()
    return after


tensors = {"start": start, "gradients": gradients, "after": steps(0.9), "after_beta1_half": steps(0.5)}
save_file(tensors, "adam.safetensors")
