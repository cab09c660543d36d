"""Writes elbo.safetensors, pretrain.safetensors, neighbours.safetensors and conv.safetensors: terms and gradients of the ELBO,
of the auto-encoder's loss, of the ELBO with the neighbour term, and of the ELBO of a convolutional network, by PyTorch's automatic differentiation in double precision.

Each case holds the inputs (x, every parameter by its name) and what is expected: the four terms in nats per
row, and the gradient of the loss for every parameter. Needs numpy, torch, safetensors. Run it in this folder.
"""

from math import log, pi

import numpy as np
import torch
from philox import DROPOUT, LATENT, PRETRAIN_ORDER, Key
from safetensors.numpy import save_file

D, HIDDEN, J, C, B = 12, [7, 9], 3, 5, 6
SEED, STEP = 2**40 + 77, 2**33 + 5
FIXED_VARIANCE = float(np.float32(0.7))
DROPOUT_RATE = float(np.float32(0.2))
LN_TAU = log(2 * pi)
rng = np.random.default_rng(4)


def rows(likelihood):
    x = rng.uniform(size=(B, D)) if likelihood == "bernoulli" else rng.normal(size=(B, D)) * 1.5
    return torch.tensor(x.astype(np.float32), dtype=torch.float64)


def parameters(likelihood, clamped):
    outputs = 2 * D if likelihood == "gaussian" else D
    shapes = {}

    def layer(name, n, m):
        shapes[name + ".weight"], shapes[name + ".bias"] = (n, m), (m,)

    down, up = [D, *HIDDEN], [J, *reversed(HIDDEN)]
    for i in range(len(HIDDEN)):
        layer(f"encoder.{i}", down[i], down[i + 1])
        layer(f"decoder.{i}", up[i], up[i + 1])
    layer("encoder.head", down[-1], 2 * J)
    layer("decoder.output", up[-1], outputs)
    shapes |= {"mixture.logits": (C,), "mixture.means": (C, J), "mixture.log_variances": (C, J)}
    values = {name: rng.normal(size=shape) * 0.4 for name, shape in shapes.items()}
    values["mixture.means"] *= 3
    if clamped:  # one number beyond each bound: it counts as the bound, and no gradient passes
        values["encoder.head.bias"][J] = -23
        values["mixture.log_variances"][1, 2] = 21
        if likelihood == "gaussian":
            values["decoder.output.bias"][D + 3], values["decoder.output.bias"][D + 5] = 12, -12
    leaf = lambda v: torch.tensor(v.astype(np.float32), dtype=torch.float64).requires_grad_()
    return {name: leaf(value) for name, value in values.items()}


def affine(p, name, x):
    return x @ p[name + ".weight"] + p[name + ".bias"]


def encode(p, x):
    for i in range(len(HIDDEN)):
        x = torch.relu(affine(p, f"encoder.{i}", x))
    return affine(p, "encoder.head", x)


def decode(p, z):
    for i in range(len(HIDDEN)):
        z = torch.relu(affine(p, f"decoder.{i}", z))
    return affine(p, "decoder.output", z)


def log_normal(x, mean, log_variance):
    return -0.5 * (LN_TAU + log_variance + (x - mean) ** 2 / log_variance.exp())


def log_likelihood(likelihood, x, output):
    if likelihood == "bernoulli":
        return (x * torch.nn.functional.logsigmoid(output) + (1 - x) * torch.nn.functional.logsigmoid(-output)).sum(-1)
    if likelihood == "gaussian":
        return log_normal(x, output[:, :D], output[:, D:].clamp(-10, 10)).sum(-1)
    return log_normal(x, output, torch.tensor(log(FIXED_VARIANCE), dtype=torch.float64)).sum(-1)


def elbo_terms(p, x, likelihood, gamma, samples):
    """The four terms, each a mean over rows and samples."""
    head = encode(p, x)
    mean, log_variance = head[:, :J], head[:, J:].clamp(-20, 20)
    mu, l = p["mixture.means"], p["mixture.log_variances"].clamp(-20, 20)
    log_pi = torch.log_softmax(p["mixture.logits"], 0)
    # E log p(z|c) under q(z|x): the density at the mean less half the ratio of variances.
    ratio = (log_variance[:, None].exp() / l.exp()[None]).sum(-1)
    expected = log_normal(mean[:, None], mu[None], l[None]).sum(-1) - 0.5 * ratio
    key, terms = Key(SEED, LATENT, 0), []
    for sample in range(samples):
        eps = torch.tensor([key.normals(STEP, sample * B + i, J) for i in range(B)], dtype=torch.float64)
        z = mean + (0.5 * log_variance).exp() * eps
        if gamma == "exact":
            q = torch.softmax(log_pi + expected, -1)
        else:
            q = torch.softmax(log_pi + log_normal(z[:, None], mu[None], l[None]).sum(-1), -1)
        reconstruction = log_likelihood(likelihood, x, decode(p, z))
        latent, cluster = (q * expected).sum(-1), (q * (log_pi - q.log())).sum(-1)
        entropy = 0.5 * (1 + LN_TAU + log_variance).sum(-1)
        terms.append(torch.stack([t.mean() for t in (reconstruction, latent, cluster, entropy)]))
    return torch.stack(terms).mean(0)


def layer_loss(p, x, likelihood, i):
    """Layer i and its mirror, as stacked pretraining sees it in its first step: dropout, the rest held still."""
    phase, n = i, len(HIDDEN)
    order = Key(SEED, PRETRAIN_ORDER, 0)
    x = x[[order.permute(row, B, phase << 32) for row in range(B)]]
    key, step = Key(SEED, DROPOUT, 0), (phase << 32 | 1) << 1

    def drop(v, what):
        kept = [key.kept(step | what, row, v.shape[1], DROPOUT_RATE) for row in range(B)]
        return v * torch.tensor(kept, dtype=torch.float64) / (1 - DROPOUT_RATE)

    below = x
    for k in range(i):
        below = torch.relu(affine(p, f"encoder.{k}", below))
    below = below.detach()
    inputs = drop(below, 0) if i > 0 else x
    if i == n:
        code = affine(p, "encoder.head", inputs)[:, :J]
    else:
        code = drop(torch.relu(affine(p, f"encoder.{i}", inputs)), 1)
    output = affine(p, "decoder.output" if i == 0 else f"decoder.{n - i}", code)
    if i == 0:
        return -log_likelihood(likelihood, x, output).mean()
    return -log_normal(below, output, torch.tensor(log(0.5), dtype=torch.float64)).sum(-1).mean()


tensors = {}


def write_case(case, x, p, loss):
    loss.backward()
    tensors[f"{case}/x"] = x.numpy().astype(np.float32)
    for name, value in p.items():
        tensors[f"{case}/value/{name}"] = value.detach().numpy().astype(np.float32)
        gradient = torch.zeros_like(value) if value.grad is None else value.grad
        tensors[f"{case}/gradient/{name}"] = gradient.numpy()


for likelihood in ("bernoulli", "gaussian", "gaussian-fixed"):
    for gamma in ("exact", "sampled"):
        for samples, clamped in ((1, False), (2, False), (2, True)):
            case = f"{likelihood} {gamma} {samples}" + (" clamped" if clamped else "")
            x, p = rows(likelihood), parameters(likelihood, clamped)
            terms = elbo_terms(p, x, likelihood, gamma, samples)
            tensors[f"{case}/terms"] = terms.detach().numpy()
            write_case(case, x, p, -terms.sum())
save_file(tensors, "elbo.safetensors", {"seed": str(SEED), "step": str(STEP)})

tensors = {}
for likelihood in ("bernoulli", "gaussian", "gaussian-fixed"):
    for phase in range(len(HIDDEN) + 2):
        x, p = rows(likelihood), parameters(likelihood, False)
        if phase <= len(HIDDEN):
            loss = layer_loss(p, x, likelihood, phase)
        else:
            loss = -log_likelihood(likelihood, x, decode(p, encode(p, x)[:, :J])).mean()
        write_case(f"{likelihood} {phase}", x, p, loss)
save_file(tensors, "pretrain.safetensors", {"seed": str(SEED)})

# The ELBO and the neighbour term: row i + 1 is the neighbour of row i, component m belongs to cluster m modulo CLUSTERS.
CLUSTERS, WEIGHT, WRONG = 2, 3.5, float(np.float32(1e-6))


def neighbour_term(p, x):
    mean = encode(p, x)[:, :J]
    mu, l = p["mixture.means"], p["mixture.log_variances"]
    joint = torch.log_softmax(p["mixture.logits"], 0) + log_normal(mean[:, None], mu[None], l[None]).sum(-1)
    clusters = torch.softmax(joint, -1) @ torch.eye(CLUSTERS, dtype=torch.float64)[torch.arange(C) % CLUSTERS]
    return WEIGHT * torch.log(WRONG + (clusters * clusters.roll(-1, 0)).sum(-1)).mean()


tensors, drawn = {}, rng.bit_generator.state
for likelihood in ("bernoulli", "gaussian-fixed"):
    for gamma in ("exact", "sampled"):
        case = f"{likelihood} {gamma} 2"
        x, p = rows(likelihood), parameters(likelihood, False)
        terms, neighbour = elbo_terms(p, x, likelihood, gamma, 2), neighbour_term(p, x)
        tensors[f"{case}/terms"] = torch.cat([terms, neighbour[None]]).detach().numpy()
        write_case(case, x, p, -(terms.sum() + neighbour))
save_file(tensors, "neighbours.safetensors", {"seed": str(SEED), "step": str(STEP)})
rng.bit_generator.state = drawn

# A convolutional network for images of 7 x 6 pixels and two channels, channels last: two convolutions that halve the
# image, a fully connected layer, and their mirrors. Odd sides need PyTorch's output padding.
IMAGE, CHANNELS, WIDTH, SIZE, STRIDE, PADDING = (7, 6, 2), (3, 4), 5, 4, 2, 1
SIDES = [(7, 6), (3, 3), (1, 1)]
D = 7 * 6 * 2


def conv_parameters():
    inputs = [IMAGE[2], *CHANNELS]
    flat = SIDES[-1][0] * SIDES[-1][1] * CHANNELS[-1]
    shapes = {}
    for i in range(2):
        shapes[f"encoder.{i}"] = (SIZE * SIZE * inputs[i], inputs[i + 1])
    shapes |= {"encoder.2": (flat, WIDTH), "encoder.head": (WIDTH, 2 * J)}
    shapes |= {"decoder.0": (J, WIDTH), "decoder.1": (WIDTH, flat)}
    for i, name in ((1, "decoder.2"), (0, "decoder.output")):
        shapes[name] = (inputs[i + 1], SIZE * SIZE * inputs[i])
    values = {}
    for name, (n, m) in shapes.items():
        values[name + ".weight"], values[name + ".bias"] = rng.normal(size=(n, m)) * 0.4, rng.normal(size=m) * 0.4
    values |= {"mixture.logits": rng.normal(size=C), "mixture.means": rng.normal(size=(C, J)),
               "mixture.log_variances": rng.normal(size=(C, J)) * 0.4}
    leaf = lambda v: torch.tensor(v.astype(np.float32), dtype=torch.float64).requires_grad_()
    return {name: leaf(value) for name, value in values.items()}


def encode(p, x):
    x = x.reshape(-1, *IMAGE).permute(0, 3, 1, 2)
    for i in range(2):
        weight = p[f"encoder.{i}.weight"].reshape(SIZE, SIZE, x.shape[1], -1).permute(3, 2, 0, 1)
        x = torch.relu(torch.nn.functional.conv2d(x, weight, p[f"encoder.{i}.bias"], STRIDE, PADDING))
    x = x.permute(0, 2, 3, 1).reshape(x.shape[0], -1)
    return affine(p, "encoder.head", torch.relu(affine(p, "encoder.2", x)))


def decode(p, z):
    z = torch.relu(affine(p, "decoder.1", torch.relu(affine(p, "decoder.0", z))))
    z = z.reshape(-1, *SIDES[-1], CHANNELS[-1]).permute(0, 3, 1, 2)
    for i, name in ((1, "decoder.2"), (0, "decoder.output")):
        channels = [IMAGE[2], *CHANNELS][i]
        # What the formula for the output's side leaves open: (n - 1) stride - 2 padding + size.
        open_ = [want - ((have - 1) * STRIDE - 2 * PADDING + SIZE) for want, have in zip(SIDES[i], SIDES[i + 1])]
        window = lambda w: w.reshape(-1, SIZE, SIZE, channels).permute(0, 3, 1, 2)
        double = lambda v, w: torch.nn.functional.conv_transpose2d(v, window(w), None, STRIDE, PADDING, open_)
        # One bias per number of the window, added before windows that overlap are summed.
        z = double(z, p[name + ".weight"]) + double(torch.ones_like(z[:, :1]), p[name + ".bias"])
        z = torch.relu(z) if i > 0 else z
    return z.permute(0, 2, 3, 1).reshape(z.shape[0], -1)


tensors = {}
for likelihood in ("bernoulli", "gaussian-fixed"):
    for gamma in ("exact", "sampled"):
        case = f"{likelihood} {gamma} 2"
        x, p = rows(likelihood), conv_parameters()
        terms = elbo_terms(p, x, likelihood, gamma, 2)
        tensors[f"{case}/terms"] = terms.detach().numpy()
        write_case(case, x, p, -terms.sum())
save_file(tensors, "conv.safetensors", {"seed": str(SEED), "step": str(STEP)})
