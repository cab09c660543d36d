"""Two runs at once on the same files: one is refused, or both finish with complete files."""

from . import family
from .lab import CPU, LONG, NET
from .training import FOLDER, MODEL


def pair(case, one, other, outputs, keeps):
    first = case.start(*one)
    second = case.start(*other)
    ran = [case.finish(*first), case.finish(*second)]
    for run, words in zip(ran, (one, other)):
        case.check(run, words, outputs, keeps)
    if all(run.status != 0 for run in ran):
        case.fail("both failed", f"{ran[0].stderr[-160:]!r} and {ran[1].stderr[-160:]!r}")
    for run in ran:
        if run.status == 2 and b"writing" not in run.stderr and b"process" not in run.stderr:
            case.fail("refusal", f"does not say which run holds the file: {run.stderr[-200:]!r}")
    return ran


@family(1)
def two_fits(case):
    """Two fits with the same output, the same checkpoint folder, log or record."""
    case.put("long.npy", case.lab.long_npy)
    fit = ["fit", "long.npy", *LONG]
    match case.index % 4:
        case 0:
            one = other = [*fit, "-o", MODEL]
            models = [MODEL]
        case 1:
            one, other = ([*fit, "-o", name, "--checkpoint", FOLDER] for name in ("a.pervade", "b.pervade"))
            models = ["a.pervade", "b.pervade"]
        case 2:
            one, other = ([*fit, "-o", name, "--log", "log.jsonl"] for name in ("a.pervade", "b.pervade"))
            models = ["a.pervade", "b.pervade"]
        case _:
            one, other = ([*fit, "-o", name, "--record", "record.json"] for name in ("a.pervade", "b.pervade"))
            models = ["a.pervade", "b.pervade"]
    ran = pair(case, one, other, [*models, "log.jsonl", "record.json"], [FOLDER])
    for name, run in zip(models if len(models) == 2 else models * 2, ran):
        if run.status == 0 and case.path(name).read_bytes() != case.lab.long_model:
            case.fail("other model", f"{name} of a run in parallel with another one")
    left = [p.name for p in case.dir.iterdir() if "checkpoint" in p.name or "lock" in p.name or ".tmp" in p.name]
    if left:
        case.fail("leftover", f"after both runs: {left}")


@family(1)
def two_writers(case):
    """Two commands that write the same table."""
    case.put("t.csv", case.lab.files["t.csv"])
    case.put("m.pervade", case.lab.named)
    out = case.rng.choice(["x.csv", "x.npy", "x.parquet"])
    words = [[case.rng.choice(["assign", "embed", "score", "reconstruct"]), "m.pervade", "t.csv", *CPU, "-o", out] for _ in range(2)]
    pair(case, *words, [out], [])


@family(0.3)
def reader_during_a_fit(case):
    """A model is read repeatedly while a fit replaces it: it is always complete."""
    case.put("t.csv", case.lab.files["t.csv"])
    case.put(MODEL, case.lab.plain, guard=False)
    case.expected(MODEL)
    fit = case.start("fit", "t.csv", "-k", "3", *NET, "--pretrain-epochs", "1", "--epochs", "1", *CPU, "-o", MODEL)
    for _ in range(4):
        case.run("inspect", MODEL, "--json", outputs=[MODEL], strays=False, status={0})
    ran = case.finish(*fit)
    case.check(ran, ["fit"], [MODEL], [])
