"""Training that is stopped, killed, runs out of disk space, or loses its data: nothing is lost."""

import os
import signal
import subprocess
import time

from . import family
from .lab import CHECKPOINT, CPU, LONG, NET, npy

MODEL, FOLDER = "m.pervade", "m.pervade.checkpoint"


def fit(case, *extra, made=(), **options):
    case.put("long.npy", case.lab.long_npy)
    return case.run("fit", "long.npy", *LONG, *extra, outputs=[MODEL, *made], **options)


def resume_run(case, *extra, out=MODEL):
    """Resumes, to the bytes of an uninterrupted run; a run without a checkpoint is started again."""
    resume = ["--resume"] if case.path(FOLDER).exists() else []
    ran = case.run("fit", "long.npy", *LONG, *resume, "-o", out, *extra, outputs=[MODEL, out], keeps=[FOLDER, out + ".checkpoint"])
    if ran.status != 0:
        case.fail("resume", f"cannot resume: exit {ran.status}, {ran.stderr[-300:]!r}")
    elif case.path(out).read_bytes() != case.lab.long_model:
        case.fail("other model", "resumed to another model than that of an uninterrupted run")


@family(2.5)
def stopped(case):
    """Any signal at any moment, up to three times, then a resumed run."""
    rng = case.rng
    words, killed = ["-o", MODEL], False
    for _ in range(rng.choice([1, 1, 2, 3])):
        sig = rng.choice([signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGKILL])
        after = [(rng.uniform(0, 0.35), sig)]
        if sig != signal.SIGKILL and rng.random() < 0.15:
            after.append((rng.uniform(0, 0.05), rng.choice([sig, signal.SIGKILL, signal.SIGTERM])))
        resume = ["--resume"] if case.path(FOLDER).exists() else []
        ran = fit(case, *words, *resume, after=after, keeps=[FOLDER])
        if ran.sent and ran.status not in (0, -signal.SIGKILL) and signal.SIGKILL not in ran.sent and len(ran.sent) == 1:
            expected = {signal.SIGINT: 130, signal.SIGTERM: 143, signal.SIGHUP: 129}[sig]
            if ran.status != expected and not (ran.status == -sig and not ran.stderr):
                case.fail("status", f"exit {ran.status} after {sig.name}, expected {expected}")
        killed = killed or signal.SIGKILL in ran.sent
        if ran.status == 0:
            break
    if case.path(FOLDER).exists() or not case.path(MODEL).exists():
        resume_run(case)
    elif case.path(MODEL).read_bytes() != case.lab.long_model:
        case.fail("other model", "a run that finished before it could stop wrote another model")
    left = [p.name for p in case.dir.iterdir() if p.name not in ("long.npy", MODEL)]
    if left and not killed:
        case.fail("leftover", f"after the resumed run: {left}")


@family(1)
def file_size_limit(case):
    """RLIMIT_FSIZE: an error, not SIGXFSZ; the last checkpoint is kept and a later run continues from it."""
    rng = case.rng
    fit(case, "-o", MODEL, *rng.choice([[], ["--log", "log.jsonl"], ["--record", "record.json"]]), fsize=rng.choice([0, 100, 1000, 3000, 6000, 20000, 40000]),
        made=["log.jsonl", "record.json"], keeps=[FOLDER])
    for name in ("log.jsonl", "record.json"):
        case.path(name).unlink(missing_ok=True)
    resume_run(case)


@family(1)
def full_disk(case):
    """A file system of a few kilobytes for the model, the checkpoint, or both."""
    if not case.lab.mounts:
        case.skipped = "needs the right to mount a tmpfs"
        return
    rng = case.rng
    small = case.path("small")
    small.mkdir()
    case.expected("small")
    size = rng.choice(["4k", "8k", "16k", "32k", "64k"])
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size}", "none", small], check=True, capture_output=True)
    try:
        out, folder = rng.choice([("small/m.pervade", FOLDER), (MODEL, "small/c"), ("small/m.pervade", "small/m.pervade.checkpoint")])
        ran = fit(case, "-o", out, "--checkpoint", folder, made=["small"], keeps=[FOLDER])
        held = case.path(folder) / CHECKPOINT
        if ran.status == 0 and case.path(out).read_bytes() != case.lab.long_model:
            case.fail("other model", "exit 0 with another model")
        if ran.status == 2 and out.startswith("small/") and folder == FOLDER:
            if not held.exists():
                case.fail("checkpoint lost", "the model could not be written, and the checkpoint is gone")
            else:
                resumed = case.run("fit", "long.npy", *LONG, "--resume", "--checkpoint", folder, "-o", MODEL, outputs=[MODEL, "small"], keeps=[FOLDER])
                if resumed.status != 0 or case.path(MODEL).read_bytes() != case.lab.long_model:
                    case.fail("resume", f"elsewhere after a full disk: exit {resumed.status}, {resumed.stderr[-200:]!r}")
        left = [p.name for p in small.rglob("*") if ".tmp" in p.name or "lock" in p.name]
        if left:
            case.fail("leftover", f"on the full disk: {left}")
    finally:
        subprocess.run(["umount", small], capture_output=True)


@family(0.7)
def vanishing_folder(case):
    """The output's folder is gone when the model is written: the checkpoint stays, and a resumed run writes elsewhere."""
    case.put("long.npy", case.lab.long_npy)
    case.path("there").mkdir()
    case.expected("there")
    process, started = case.start("fit", "long.npy", *LONG, "-o", "there/m.pervade", "--checkpoint", FOLDER)
    deadline = time.monotonic() + 20
    while process.poll() is None and not (case.path(FOLDER) / CHECKPOINT).exists() and time.monotonic() < deadline:
        time.sleep(0.003)
    for path in case.path("there").iterdir():
        path.unlink(missing_ok=True)
    try:
        case.path("there").rmdir()
    except OSError:
        pass
    ran = case.finish(process, started)
    case.check(ran, ["fit"], ["there", "there/m.pervade"], [FOLDER])
    if ran.status == 2:
        if not (case.path(FOLDER) / CHECKPOINT).exists():
            case.fail("checkpoint lost", "the output's folder vanished, and the checkpoint is gone")
        else:
            resume_run(case, "--checkpoint", FOLDER)


@family(0.7)
def changing_data(case):
    """The table is cut, rewritten or removed while a run trains on it: exit 2 with the checkpoint kept, no SIGBUS."""
    rng = case.rng
    rows = [[rng.gauss(4 * (i % 3 == j), 1) for j in range(3)] for i in range(2000)]
    data = npy(rows)
    case.put("big.npy", data, guard=False)
    case.expected("big.npy")
    process, started = case.start("fit", "big.npy", "-k", "3", *NET, "--pretrain-epochs", "6", "--epochs", "80", "--checkpoint-seconds", "0", *CPU, "-o", MODEL)
    deadline = time.monotonic() + 20
    while process.poll() is None and not (case.path(FOLDER) / CHECKPOINT).exists() and time.monotonic() < deadline:
        time.sleep(0.003)
    how = ["cut", "rewritten", "empty", "replaced", "removed"][case.index % 5]
    path = case.path("big.npy")
    running = process.poll() is None
    match how:
        case "cut":
            os.truncate(path, len(data) // 2)
        case "empty":
            os.truncate(path, 0)
        case "rewritten":
            with open(path, "r+b") as file:
                file.seek(len(data) - 4096)
                file.write(npy(rows[::-1])[-4096:])
        case "replaced":
            case.put("new.npy", npy(rows[::-1]), guard=False)
            os.replace(case.path("new.npy"), path)
        case "removed":
            path.unlink()
    ran = case.finish(process, started)
    case.check(ran, ["fit"], [MODEL], [FOLDER])
    if running and how in ("cut", "rewritten", "empty") and ran.status == 0:
        case.fail("changed data", f"the table was {how} in the middle of training, exit 0")
    if running and ran.status == 2 and not (case.path(FOLDER) / CHECKPOINT).exists():
        case.fail("checkpoint lost", f"after the table was {how}")
