"""Writes images.safetensors: convolutions, transposed convolutions and batch normalisation with their gradients, and one
update of InfoGAN (Chen et al., 2016), by PyTorch's own operations and automatic differentiation in double precision.

Images are [n, height, width, channels] here and [n, channels, height, width] in PyTorch; weights are turned round to
fit. InfoGAN's losses are written from the paper and its authors' settings, not from the Rust code. Needs numpy, torch,
safetensors. Run it in this folder.
"""

import numpy as np
import torch
import torch.nn.functional as F
from safetensors.numpy import save_file

rng = np.random.default_rng(12)
tensors = {}


def single(*shape, scale=1.0, shift=0.0):
    values = (rng.normal(size=shape) * scale + shift).astype(np.float32)
    return torch.tensor(values.astype(np.float64))


def keep(name, value):
    tensors[name] = np.ascontiguousarray(value.detach().numpy())


def keep_single(name, value):
    tensors[name] = np.ascontiguousarray(value.detach().numpy().astype(np.float32))


def planes(x):
    return x.permute(0, 3, 1, 2)


def pixels(x):
    return x.permute(0, 2, 3, 1)


def conv_kernel(weight, size, channels):
    """[k k C, outputs] to PyTorch's [outputs, C, k, k]."""
    return weight.reshape(size, size, channels, -1).permute(3, 2, 0, 1)


def transposed_kernel(weight, size, channels):
    """[inputs, k k C] to PyTorch's [inputs, C, k, k]."""
    return weight.reshape(-1, size, size, channels).permute(0, 3, 1, 2)


def window_bias(bias, n, inputs, size, channels, stride, padding):
    """One number for each of a window's, added up where windows meet."""
    ones = torch.ones(n, 1, *inputs, dtype=torch.float64)
    kernel = bias.reshape(1, size, size, channels).permute(0, 3, 1, 2)
    return F.conv_transpose2d(ones, kernel, stride=stride, padding=padding)


# Convolutions: halving as InfoGAN does, and shapes that leave a rest at the edges.
CONVOLUTIONS = {
    "halving": (3, 8, 8, 5, 4, 2, 1, 6),
    "odd": (2, 7, 5, 3, 3, 2, 1, 4),
    "no padding": (2, 6, 9, 2, 3, 3, 0, 3),
    "one pixel": (1, 1, 1, 4, 1, 1, 0, 2),
}
for case, (n, h, w, c, size, stride, padding, outputs) in CONVOLUTIONS.items():
    x = single(n, h, w, c).requires_grad_()
    weight, bias = single(size * size * c, outputs).requires_grad_(), single(outputs).requires_grad_()
    y = pixels(F.conv2d(planes(x), conv_kernel(weight, size, c), bias, stride=stride, padding=padding))
    dy = single(*y.shape)
    y.backward(dy)
    for name, value in {"x": x, "weight": weight, "bias": bias, "dy": dy}.items():
        keep_single(f"convolution/{case}/{name}", value)
    keep(f"convolution/{case}/y", y)
    for name, value in {"x": x, "weight": weight, "bias": bias}.items():
        keep(f"convolution/{case}/gradient/{name}", value.grad)

# Transposed convolutions: case, n, input's height and width, inputs, size, stride, padding, output's channels.
TRANSPOSED = {"doubling": (3, 4, 4, 6, 4, 2, 1, 5), "odd": (2, 3, 5, 3, 3, 2, 0, 2)}
for case, (n, h, w, inputs, size, stride, padding, c) in TRANSPOSED.items():
    x = single(n, h, w, inputs).requires_grad_()
    weight, bias = single(inputs, size * size * c).requires_grad_(), single(size * size * c).requires_grad_()
    y = F.conv_transpose2d(planes(x), transposed_kernel(weight, size, c), stride=stride, padding=padding)
    y = pixels(y + window_bias(bias, n, (h, w), size, c, stride, padding))
    dy = single(*y.shape)
    y.backward(dy)
    for name, value in {"x": x, "weight": weight, "bias": bias, "dy": dy}.items():
        keep_single(f"transposed/{case}/{name}", value)
    keep(f"transposed/{case}/y", y)
    for name, value in {"x": x, "weight": weight, "bias": bias}.items():
        keep(f"transposed/{case}/gradient/{name}", value.grad)

# Batch normalisation: rows, columns, groups that are normalised each by itself.
NORMS = {"one group": (30, 5, 1), "two groups": (26, 37, 2), "two rows": (4, 3, 2)}
for case, (rows, columns, groups) in NORMS.items():
    x = (single(rows, columns, scale=2.0) + single(columns, scale=30.0)).to(torch.float32).to(torch.float64).requires_grad_()
    gain, shift = single(columns, shift=1.0).requires_grad_(), single(columns).requires_grad_()
    mean, variance = single(columns), single(columns).abs()
    keep_single(f"norm/{case}/mean", mean)
    keep_single(f"norm/{case}/variance", variance)
    parts = [F.batch_norm(part, None, None, gain, shift, training=True, eps=1e-5) for part in x.chunk(groups)]
    kept = F.batch_norm(x, mean, variance, gain, shift, training=False, eps=1e-5)
    y = torch.cat(parts)
    dy = single(rows, columns)
    y.backward(dy)
    after_mean = 0.9 * mean + 0.1 * torch.stack([part.mean(0) for part in x.chunk(groups)]).mean(0)
    variances = [part.var(0, unbiased=False) for part in x.chunk(groups)]
    after_variance = 0.9 * variance + 0.1 * torch.stack(variances).mean(0)
    for name, value in {"x": x, "gain": gain, "shift": shift, "dy": dy}.items():
        keep_single(f"norm/{case}/{name}", value)
    for name, value in {"y": y, "kept": kept, "after/mean": after_mean, "after/variance": after_variance}.items():
        keep(f"norm/{case}/{name}", value)
    for name, value in {"x": x, "gain": gain, "shift": shift}.items():
        keep(f"norm/{case}/gradient/{name}", value.grad)

# InfoGAN on images of 8 x 8: sizes and numbers of all layers, codes and real images, losses and gradients.
SIDE, K, CODES, NOISE, NEAR, FAR, WIDTH, RECOGNITION, BATCH, LAMBDA = 8, 3, 2, 4, 5, 6, 16, 7, 9, 0.7
HALF, QUARTER = SIDE // 2, SIDE // 4
params = {}


def affine(name, inputs, outputs, scale=0.3):
    params[f"{name}.weight"], params[f"{name}.bias"] = single(inputs, outputs, scale=scale), single(1, outputs, scale=0.1)


def norm(name, columns):
    params[f"{name}.gain"] = single(1, columns, scale=0.2, shift=1.0)
    params[f"{name}.shift"] = single(1, columns, scale=0.2)


affine("generator.0", K + CODES + NOISE, WIDTH)
norm("generator.0.norm", WIDTH)
affine("generator.1", WIDTH, QUARTER * QUARTER * FAR)
norm("generator.1.norm", QUARTER * QUARTER * FAR)
affine("generator.2", FAR, 16 * NEAR)
norm("generator.2.norm", NEAR)
affine("generator.3", NEAR, 16)
affine("discriminator.0", 16, NEAR)
affine("discriminator.1", 16 * NEAR, FAR)
norm("discriminator.1.norm", FAR)
affine("discriminator.2", QUARTER * QUARTER * FAR, WIDTH)
norm("discriminator.2.norm", WIDTH)
affine("heads", WIDTH, 1 + RECOGNITION)
norm("recognition.norm", RECOGNITION)
affine("recognition.output", RECOGNITION, K + 2 * CODES)
for value in params.values():
    value.requires_grad_()


def normed(x, name):
    return F.batch_norm(x, None, None, params[f"{name}.gain"][0], params[f"{name}.shift"][0], training=True, eps=1e-5)


def dense(x, name):
    return x @ params[f"{name}.weight"] + params[f"{name}.bias"]


def up(x, name, side, channels):
    kernel = transposed_kernel(params[f"{name}.weight"], 4, channels)
    bias = window_bias(params[f"{name}.bias"], len(x), (side, side), 4, channels, 2, 1)
    return F.conv_transpose2d(x, kernel, stride=2, padding=1) + bias


def generator(z):
    h = F.relu(normed(dense(z, "generator.0"), "generator.0.norm"))
    h = F.relu(normed(dense(h, "generator.1"), "generator.1.norm"))
    h = planes(h.reshape(-1, QUARTER, QUARTER, FAR))
    h = F.relu(normed(up(h, "generator.2", QUARTER, NEAR), "generator.2.norm"))
    return torch.sigmoid(up(h, "generator.3", HALF, 1))[:, 0]


def down(x, name, channels):
    kernel = conv_kernel(params[f"{name}.weight"], 4, channels)
    return F.conv2d(x, kernel, params[f"{name}.bias"][0], stride=2, padding=1)


def discriminator(images):
    """D's logits, and Q's output."""
    h = F.leaky_relu(down(images[:, None], "discriminator.0", 1), 0.1)
    h = F.leaky_relu(normed(down(h, "discriminator.1", NEAR), "discriminator.1.norm"), 0.1)
    h = F.leaky_relu(normed(dense(pixels(h).flatten(1), "discriminator.2"), "discriminator.2.norm"), 0.1)
    heads = dense(h, "heads")
    q = F.leaky_relu(normed(heads[:, 1:], "recognition.norm"), 0.1)
    return heads[:, 0], dense(q, "recognition.output")


def log_q(output, z):
    """Mean log density of the choice, and of the numbers."""
    choice = F.log_softmax(output[:, :K], 1)[torch.arange(len(z)), z[:, :K].argmax(1)]
    means, log_variances = output[:, K : K + CODES], output[:, K + CODES :]
    numbers = torch.distributions.Normal(means, (0.5 * log_variances).exp()).log_prob(z[:, K : K + CODES])
    return choice.mean(), numbers.sum(1).mean()


def keep_gradients(phase, loss, names):
    for name, gradient in zip(names, torch.autograd.grad(loss, [params[name] for name in names])):
        keep(f"infogan/{phase}/gradient/{name}", gradient)


def codes():
    z = torch.tensor(rng.uniform(-1, 1, size=(BATCH, K + CODES + NOISE)).astype(np.float32).astype(np.float64))
    z[:, :K] = torch.eye(K, dtype=torch.float64)[torch.tensor(rng.integers(K, size=BATCH))]
    return z


real = torch.tensor(rng.uniform(0, 1, size=(BATCH, SIDE, SIDE)).astype(np.float32).astype(np.float64))
keep_single("infogan/real", real)
for name, value in params.items():
    keep_single(f"infogan/start/{name}", value)
by_generator = [name for name in params if name.startswith("generator")]
by_others = [name for name in params if not name.startswith("generator")]

# D and Q: made and real images pass apart, as in the authors' code; ours is half of this loss.
z = codes()
keep_single("infogan/discriminate/z", z)
made = generator(z).detach()
made_logits, output = discriminator(made)
real_logits, _ = discriminator(real)
of_real, of_made = F.logsigmoid(real_logits).mean(), F.logsigmoid(-made_logits).mean()
choice, numbers = log_q(output, z)
loss = -(of_real + of_made) - LAMBDA * (choice + numbers)
keep_gradients("discriminate", loss, by_others)
keep("infogan/discriminate/images", made)
keep("infogan/discriminate/terms", torch.stack([of_real + of_made, numbers, choice]))

# G: to be taken for real, and to be read.
z = codes()
keep_single("infogan/deceive/z", z)
logits, output = discriminator(generator(z))
verdict = F.logsigmoid(logits).mean()
choice, numbers = log_q(output, z)
keep_gradients("deceive", -verdict - LAMBDA * (choice + numbers), by_generator)
keep("infogan/deceive/terms", torch.stack([verdict, numbers, choice]))
save_file(tensors, "images.safetensors")
