"""Standard streams that cannot be written to, and limits on memory."""

from . import family
from .flags import ALL_COMMANDS, words_of
from .lab import CPU, NET, npy, npz


@family(2)
def full_streams(case):
    """stdout or stderr is a full device or closed: no panic, and a full stdout is exit 2."""
    rng = case.rng
    quick = [c for c in ALL_COMMANDS if c not in ("doctor", "bench", "demo", "explore")]
    command = [*quick, "--help", "--version", "help"][case.index % (len(quick) + 3)]
    if command in ("--help", "--version", "help"):
        words = rng.choice([[command], [rng.choice(ALL_COMMANDS), "--help"]])
    else:
        words, outputs, keeps = words_of(case, command, [])
        words += rng.choice([[], ["--json"], ["--nope"]])
    which = case.index // (len(quick) + 3) % 3
    streams = [{"stdout": "/dev/full"}, {"stderr": "/dev/full"}, {"stdout": "&-"}][which]
    outs = ["out.pervade", "repro", "g.csv", "g.npy", "g.png", "g.parquet", "g.onnx"]
    ran = case.run(*words, outputs=outs, keeps=["out.pervade.checkpoint"], **streams)
    prints = words[0] in ("--help", "--version", "help", "completions", "inspect", "card", "evaluate") or "--json" in words or "--help" in words
    silent = "-o" in words and "--json" not in words
    if which == 0 and prints and not silent and ran.status != 2:
        case.fail("stdout", f"exit {ran.status} although nothing could be written to stdout")


def needs(case):
    """Commands that need far more memory than the limit of 1 GB or less."""
    lab, rng = case.lab, case.rng
    case.put("t.csv", lab.files["t.csv"])
    fit = ["fit", "t.csv", "-k", "3", "--pretrain-epochs", "1", "--epochs", "1", *CPU, "-o", "out.pervade"]
    yield [*fit, "--hidden", "65536,65536", "--latents", "2"]
    yield [*fit, "--hidden", rng.choice(["100000000", "30000,30000", "4294967295,2"]), "--latents", "2"]
    yield [*fit, *NET, "--samples", rng.choice(["1000000", "4294967295"])]
    yield [*fit, "--hidden", "8", "--latents", rng.choice(["1000000", "300000000"])]
    yield [*fit, *NET, "--components", rng.choice(["1000000000", "100000000"])]
    yield [*fit, *NET, "--batch", "4294967295", "--samples", "60000"]
    case.put("wide.csv", (",".join(["1"] * 400000) + "\n").encode() * 3)
    yield ["fit", "wide.csv", "-k", "2", "--pretrain-epochs", "1", "--epochs", "1", *CPU, "-o", "out.pervade"]
    case.put("far.svm", b"1 1:1 300000000:1\n2 2:1\n")
    yield ["fit", "far.svm", "-k", "2", *NET, "--pretrain-epochs", "1", "--epochs", "1", *CPU, "-o", "out.pervade"]
    yield ["compare", "far.svm", "-k", "2", "--methods", rng.choice(["k-means", "gmm", "gmm-full", "vade"]), "--seeds", "1", *CPU]
    case.put("many.npz", npz({"x": npy([[1] * 4000] * 5000, "|u1")}) if case.index % 40 == 11 else lab.files["t.npz"])
    yield ["compare", "many.npz", "-k", "2", "--methods", rng.choice(["gmm-full", "spectral", "k-means"]), "--seeds", "1", *CPU]
    case.put("p.pervade", lab.picture)
    yield ["generate", "p.pervade", "-n", rng.choice(["100000000", "1000000"]), "-o", "g.png", *CPU]
    yield ["generate", "p.pervade", "-n", "18446744073709551615", "-o", rng.choice(["g.npy", "g.parquet"]), *CPU]
    yield ["bench", "step", "--columns", rng.choice(["100000000", "4294967295"]), "--seconds", "0.01", *CPU]
    yield ["bench", "step", "--batch", "100000000", "--seconds", "0.01", *CPU]


@family(1)
def memory(case):
    """More memory than the limit allows: refused before it is allocated."""
    made = list(needs(case))
    words = made[case.index % len(made)]
    refused = words[0] == "bench" or (words[:2] == ["fit", "t.csv"] and "60000" not in words) or "18446744073709551615" in words
    expect = ({2}, "status", "needs more than the limit") if refused else None
    case.run(*words, *(["--json"] if case.rng.random() < 0.3 else []), outputs=["out.pervade", "g.png", "g.npy", "g.parquet"], keeps=["out.pervade.checkpoint"],
             memory_mb=case.rng.choice([300, 500, 1000]), expect=expect)


@family(1)
def little_memory(case):
    """Ordinary work with hardly enough memory to start: exit 0 or 2, no abort."""
    rng = case.rng
    command = rng.choice(["fit", "assign", "embed", "compare", "generate", "inspect"])
    words, outputs, keeps = words_of(case, command, [])
    case.run(*words, outputs=outputs, keeps=keeps, memory_mb=rng.choice([60, 80, 100, 150]))
