"""Writes sticks.safetensors: stick-breaking weights, their divergence from the prior (Nalisnick and Smyth, 2017), and the
ELBO of a posterior that is a mixture of Gaussians (Nalisnick, Hertel and Smyth, 2016), with gradients by PyTorch's
automatic differentiation in double precision. Random numbers are those of philox.py.

Needs numpy, scipy, torch, safetensors. Run it in this folder.
"""

import numpy as np
import torch
from philox import LATENT, Key
from safetensors.numpy import save_file
from scipy.integrate import quad
from scipy.stats import beta as beta_distribution

rng = np.random.default_rng(8)
key = Key(11, LATENT, 0)
tensors = {}


def single(values):
    return torch.tensor(np.asarray(values).astype(np.float32), dtype=torch.float64)


def uniforms(step, rows, count):
    """Numbers in (0.01, 0.99): 24 bits of each word, in the middle of their interval."""
    words = [[w for quad in range((count + 3) // 4) for w in key.draw(step, row, quad)][:count] for row in range(rows)]
    return torch.tensor([[0.01 + 0.98 * ((w >> 8) + 0.5) / 2**24 for w in row] for row in words], dtype=torch.float64)


def parameters(head):
    a, b = torch.nn.functional.softplus(head).chunk(2, dim=1)
    return a[:, :-1], b[:, :-1]


def log_beta(x, y):
    return torch.lgamma(x) + torch.lgamma(y) - torch.lgamma(x + y)


def broken(v):
    ones = torch.ones_like(v[:, :1])
    left = torch.cat([ones, torch.cumprod(1 - v, 1)], 1)
    return torch.cat([v, ones], 1) * left


def drawn_weights(head, step):
    a, b = parameters(head)
    u = uniforms(step, *a.shape)
    return broken((1 - u ** (1 / b)) ** (1 / a))


def mean_weights(head):
    a, b = parameters(head)
    return broken(b * torch.exp(log_beta(1 + 1 / a, b)))


def divergence(a, b, first, second):
    first, second = torch.as_tensor(first, dtype=torch.float64), torch.as_tensor(second, dtype=torch.float64)
    kl = (a - first) / a * (-np.euler_gamma - torch.digamma(b) - 1 / b) + torch.log(a * b)
    kl = kl + log_beta(first, second) - (b - 1) / b
    series = sum(torch.exp(log_beta(m / a, b)) / (m + a * b) for m in range(1, 11))
    return kl + (second - 1) * b * series


def prior(kind, n, c):
    if kind == "falling":
        return np.ones(n - 1), np.full(n - 1, c)
    return np.full(n - 1, c), c * (n - 1 - np.arange(n - 1.0))


# The formula is the integral where the series is short enough: fractions that stay away from one.
def by_integration(a, b, first, second):
    def density(v):
        return a * b * v ** (a - 1) * (1 - v**a) ** (b - 1)
    return quad(lambda v: density(v) * (np.log(density(v)) - beta_distribution.logpdf(v, first, second)), 0, 1)[0]


for a, b, first, second, tolerance in [(1.5, 2.0, 1.0, 1.0, 1e-7), (0.7, 1.3, 2.0, 1.0, 1e-7), (1.2, 12.0, 1.0, 5.0, 1e-3)]:
    ours = divergence(torch.tensor(a, dtype=torch.float64), torch.tensor(b, dtype=torch.float64), first, second).item()
    assert abs(ours - by_integration(a, b, first, second)) < tolerance, (a, b, ours)

for case, (b, j, kind, c, step) in {"falling": (5, 9, "falling", 5.0, 3), "dirichlet": (4, 5, "dirichlet", 1.0, 2**33 + 1),
                                    "two": (3, 2, "falling", 2.5, 0)}.items():
    head = single(rng.normal(size=(b, 2 * j)) * 1.5).requires_grad_()
    w = single(rng.normal(size=(b, j)))
    tensors[f"{case}/head"], tensors[f"{case}/w"] = head.detach().numpy().astype(np.float32), w.numpy().astype(np.float32)
    for name, weights in {"drawn": drawn_weights(head, step), "mean": mean_weights(head)}.items():
        (gradient,) = torch.autograd.grad((w * weights).sum(), head)
        tensors[f"{case}/{name}"], tensors[f"{case}/{name}_gradient"] = weights.detach().numpy(), gradient.numpy()
    kl = divergence(*parameters(head), *prior(kind, j, c)).sum(1).mean()
    (gradient,) = torch.autograd.grad(kl, head)
    tensors[f"{case}/kl"], tensors[f"{case}/kl_gradient"] = kl.detach().numpy().reshape(1), gradient.numpy()

# The ELBO of a mixture as posterior; the decoder is one linear layer. Component k of row i is row k B + i.
B, K, J, D, SPREAD, STEP = 6, 4, 3, 7, 0.5, 5
components = single(rng.normal(size=(K * B, 2 * J))).requires_grad_()
sticks = single(rng.normal(size=(B, 2 * K))).requires_grad_()
x, layer = single(rng.random((B, D))), single(rng.normal(size=(J, D)))
eps = torch.tensor([key.normals(STEP, row, J) for row in range(K * B)], dtype=torch.float64)
mean, log_variance = components.chunk(2, dim=1)
z = mean + torch.exp(0.5 * log_variance) * eps
logits = z @ layer
log_likelihood = (x.repeat(K, 1) * logits - torch.nn.functional.softplus(logits)).sum(1).view(K, B).T
prior_mean = torch.linspace(-SPREAD, SPREAD, K, dtype=torch.float64).repeat_interleave(B)[:, None]
energy = -0.5 * (np.log(2 * np.pi) + (mean - prior_mean) ** 2 + torch.exp(log_variance)).sum(1).view(K, B).T
log_density = -0.5 * (np.log(2 * np.pi) + log_variance + (z - mean) ** 2 * torch.exp(-log_variance)).sum(1).view(K, B).T
entropy = -torch.logsumexp(torch.log(drawn_weights(sticks, STEP + 1)) + log_density, 1)
kl = divergence(*parameters(sticks), *prior("dirichlet", K, 1.0)).sum(1)
elbo = (mean_weights(sticks) * (log_likelihood + energy)).sum(1) - kl + entropy
(-elbo.mean()).backward()
for name, value in {"components": components, "sticks": sticks, "x": x, "layer": layer}.items():
    tensors[f"mixture/{name}"] = value.detach().numpy().astype(np.float32)
tensors["mixture/elbo"] = elbo.mean().detach().numpy().reshape(1)
tensors["mixture/components_gradient"], tensors["mixture/sticks_gradient"] = components.grad.numpy(), sticks.grad.numpy()
save_file(tensors, "sticks.safetensors")
