"""Writes typed.safetensors: log p(x|z) of typed columns, of a table of counts and of multinomial rows, and its gradients, by
PyTorch's distributions and automatic differentiation in double precision.

Each case holds the rows x (NaN where a cell is missing), the decoder's output, the log scales, the sum over rows of the mean of
log p(x|z) over samples, and the gradients of the loss, the mean of -log p(x|z) over rows and samples. Needs numpy, torch,
safetensors. Run it in this folder.
"""

import numpy as np
import torch
from safetensors.numpy import save_file
from torch.distributions import Bernoulli, Categorical, NegativeBinomial, Normal

B, SAMPLES = 6, 2
# The codes of the families in the file; a category has so many levels.
GAUSSIAN, COUNT, BERNOULLI, CATEGORICAL = range(4)
COLUMNS = [(GAUSSIAN, 1), (CATEGORICAL, 4), (COUNT, 1), (BERNOULLI, 1), (CATEGORICAL, 2), (COUNT, 1), (GAUSSIAN, 1), (COUNT, 1)]
LEAST_LOG_VARIANCE, LOG_MEAN_LIMIT, LOG_DISPERSION_LIMIT = -4.6, 30, 10
rng = np.random.default_rng(18)
tensors = {}


def leaf(values):
    return torch.tensor(np.asarray(values, dtype=np.float32), dtype=torch.float64).requires_grad_()


def rounded(values):
    return torch.tensor(np.asarray(values, dtype=np.float32), dtype=torch.float64)


def negative_binomial(k, log_mean, log_dispersion):
    log_mean = log_mean.clamp(-LOG_MEAN_LIMIT, LOG_MEAN_LIMIT)
    log_dispersion = log_dispersion.clamp(-LOG_DISPERSION_LIMIT, LOG_DISPERSION_LIMIT)
    return NegativeBinomial(log_dispersion.exp(), logits=log_mean - log_dispersion).log_prob(k)


def write_case(case, x, output, scales, log_density):
    """`log_density` is that of each sample: sample l of row i is row l B + i of output and scales."""
    tensors[f"{case}/value"] = (log_density.sum() / SAMPLES).detach().numpy().reshape(1)
    (-log_density.mean()).backward()
    tensors[f"{case}/x"] = x.numpy().astype(np.float32)
    for name, value in (("output", output), ("scales", scales)):
        tensors[f"{case}/{name}"] = value.detach().numpy().astype(np.float32)
        tensors[f"{case}/gradient/{name}"] = (torch.zeros_like(value) if value.grad is None else value.grad).numpy()


def cell(family, levels):
    if family == GAUSSIAN:
        return rng.normal(size=B) * 1.5
    if family == COUNT:
        return rng.negative_binomial(2, 0.1, size=B)
    return rng.integers(levels if family == CATEGORICAL else 2, size=B)


def typed(bounds):
    """All families; with `bounds`, numbers beyond the bounds of the parameters, which count as the bounds."""
    x = np.stack([cell(*column) for column in COLUMNS], axis=1).astype(float)
    x[rng.uniform(size=x.shape) < 0.2] = np.nan
    x = rounded(x)
    shift, factor, weight = rounded(rng.normal(size=len(COLUMNS))), rounded(rng.uniform(0.5, 2, size=len(COLUMNS))), rounded(
        rng.uniform(0.5, 2, size=len(COLUMNS)))
    n_outputs, n_scales = sum(levels for _, levels in COLUMNS), sum(family in (GAUSSIAN, COUNT) for family, _ in COLUMNS)
    output, scales = rng.normal(size=(SAMPLES * B, n_outputs)), rng.normal(size=(SAMPLES * B, n_scales))
    if bounds:
        scales[1, 0], scales[2, 1], scales[3, 2] = -4, 11, -11
        output[0, 5], output[4, 5] = 100, -100
    output, scales = leaf(output), leaf(scales)
    total, at, scale_at = torch.zeros(SAMPLES * B, dtype=torch.float64), 0, 0
    for j, (family, levels) in enumerate(COLUMNS):
        cells = x[:, j].repeat(SAMPLES)
        seen = ~cells.isnan()
        k, o = cells[seen], output[seen, at : at + levels]
        if family in (GAUSSIAN, COUNT):
            scale = scales[seen, scale_at]
            scale_at += 1
        if family == GAUSSIAN:
            value = Normal(o[:, 0], (0.5 * scale.clamp(min=LEAST_LOG_VARIANCE)).exp()).log_prob(k)
        elif family == COUNT:
            value = negative_binomial(k, o[:, 0] / factor[j] + shift[j], scale)
        elif family == BERNOULLI:
            value = Bernoulli(logits=o[:, 0]).log_prob(k)
        else:
            value = Categorical(logits=o).log_prob(k)
        total = total.index_add(0, torch.nonzero(seen)[:, 0], weight[j] * value)
        at += levels
    case = "typed, beyond bounds" if bounds else "typed"
    for name, values in (("shift", shift), ("factor", factor), ("weight", weight)):
        tensors[f"{case}/{name}"] = values.numpy().astype(np.float32)
    for name, index in (("families", 0), ("levels", 1)):
        tensors[f"{case}/{name}"] = np.array([column[index] for column in COLUMNS], dtype=np.uint32)
    write_case(case, x, output, scales, total)


def counts(n_columns, most):
    x = np.floor(rng.uniform(size=(B, n_columns)) ** 4 * most)
    x[3] = 0
    x = rounded(x)
    output, scales = leaf(rng.normal(size=(SAMPLES * B, n_columns))), leaf(rng.normal(size=(SAMPLES * B, n_columns)) * 2)
    k = x.repeat(SAMPLES, 1)
    total = torch.zeros(SAMPLES * B, dtype=torch.float64)
    seen = k.sum(-1) > 0
    log_mean = k[seen].sum(-1, keepdim=True).log() + torch.log_softmax(output[seen], -1)
    total = total.index_add(0, torch.nonzero(seen)[:, 0], negative_binomial(k[seen], log_mean, scales[seen]).sum(-1))
    write_case(f"counts up to {most}", x, output, scales, total)


def multinomial(n_columns):
    x = rounded(rng.uniform(size=(B, n_columns)) * (rng.uniform(size=(B, n_columns)) < 0.4))
    output = leaf(rng.normal(size=(SAMPLES * B, n_columns)) * 2)
    total = (x.repeat(SAMPLES, 1) * Categorical(logits=output).logits).sum(-1)
    write_case("multinomial", x, output, torch.zeros(0, dtype=torch.float64), total)


typed(False)
typed(True)
counts(21, 30)
counts(9, 1_000_000)
multinomial(21)
save_file(tensors, "typed.safetensors")
