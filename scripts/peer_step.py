"""Times the training steps of PyTorch and pervade alternately, on the cores of this process, for scripts/bench-peers.

The step is the same: D-500-500-2000-10 and its mirror, Bernoulli likelihood, mixture prior with ten
components, sampled gamma, Adam. PyTorch runs it plain, with the fused Adam and compiled. Each round
runs every contestant once, so that a slow minute of the machine hits all of them. The last line is
JSON: the milliseconds of each round.
"""

import argparse
import json
import os
import statistics
import subprocess
import time

import torch
from torch import nn
from torch.nn import functional as F


class Vade(nn.Module):
    def __init__(self, columns: int, clusters: int = 10, latents: int = 10):
        super().__init__()

        def chain(*widths):
            layers = []
            for a, b in zip(widths, widths[1:]):
                layers += [nn.Linear(a, b), nn.ReLU()]
            return nn.Sequential(*layers)

        self.encoder = chain(columns, 500, 500, 2000)
        self.mean, self.log_variance = nn.Linear(2000, latents), nn.Linear(2000, latents)
        self.decoder = nn.Sequential(*chain(latents, 2000, 500, 500), nn.Linear(500, columns))
        self.logits = nn.Parameter(torch.zeros(clusters))
        self.means = nn.Parameter(torch.randn(clusters, latents))
        self.log_variances = nn.Parameter(torch.zeros(clusters, latents))

    def loss(self, x):
        h = self.encoder(x)
        mean, log_variance = self.mean(h), self.log_variance(h)
        z = mean + (0.5 * log_variance).exp() * torch.randn_like(mean)
        reconstruction = F.binary_cross_entropy_with_logits(self.decoder(z), x, reduction="sum")
        log_weights, precision = F.log_softmax(self.logits, 0), (-self.log_variances).exp()

        def distance(point, spread):
            return (self.log_variances + (spread + (point[:, None] - self.means) ** 2) * precision).sum(2)

        log_gamma = F.log_softmax(log_weights - 0.5 * distance(z, 0.0), 1)
        gamma = log_gamma.exp()
        expected = 0.5 * distance(mean, log_variance.exp()[:, None])
        prior = (gamma * (expected - log_weights + log_gamma)).sum() - 0.5 * (1 + log_variance).sum()
        return (reconstruction + prior) / x.shape[0]


def torch_stepper(kind: str, columns: int, batch: int):
    torch.manual_seed(0)
    model = Vade(columns)
    optimiser = torch.optim.Adam(model.parameters(), lr=2e-3, eps=1e-4, fused=kind != "plain")
    x = torch.rand(batch, columns)
    loss = torch.compile(model.loss) if kind == "compiled" else model.loss

    def step():
        optimiser.zero_grad(set_to_none=True)
        loss(x).backward()
        optimiser.step()

    for _ in range(15):
        step()
    return step


def milliseconds(step, seconds: float) -> float:
    times, end = [], time.perf_counter() + seconds
    while time.perf_counter() < end:
        start = time.perf_counter()
        step()
        times.append((time.perf_counter() - start) * 1e3)
    return statistics.median(times)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pervade", required=True, help="the command to run")
    parser.add_argument("--before", help="the command of an earlier build, which takes part in every round")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--columns", type=int, default=784)
    parser.add_argument("--batch", type=int, default=100)
    parser.add_argument("--seconds", type=float, default=2.0)
    parser.add_argument("--modes", default="plain,fused,compiled", help="of PyTorch, separated by commas")
    args = parser.parse_args()
    threads = len(os.sched_getaffinity(0))
    torch.set_num_threads(threads)

    steppers = {}
    for kind in args.modes.split(","):
        try:
            steppers[kind] = torch_stepper(kind, args.columns, args.batch)
        except Exception as error:  # a compiler may be missing; the others still count
            print(f"torch {kind}: not available ({type(error).__name__})", flush=True)
    bench = ["bench", "step", "--json", "--device", "cpu", "--columns", str(args.columns), "--batch", str(args.batch)]
    bench += ["--seconds", str(args.seconds), "--threads", str(threads)]
    builds = {"pervade": args.pervade} | ({"before": args.before} if args.before else {})
    times = {name: [] for name in [*builds, *steppers]}
    for number in range(args.rounds):
        for name, command in builds.items():
            times[name].append(json.loads(subprocess.run([command, *bench], check=True, capture_output=True).stdout)["ms_per_step"])
        for name, step in steppers.items():
            times[name].append(milliseconds(step, args.seconds))
        print(f"round {number + 1}: " + ", ".join(f"{name} {t[-1]:.2f} ms" for name, t in times.items()), flush=True)
    rounded = {name: [round(t, 3) for t in rounds] for name, rounds in times.items()}
    print(json.dumps({"ms": rounded, "torch": torch.__version__}))


if __name__ == "__main__":
    main()
