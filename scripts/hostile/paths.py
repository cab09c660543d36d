"""Output paths: inputs by any name, paths that cannot be written, existing files of other kinds."""

import os
import signal

from . import damage, family
from .case import NOBODY
from .lab import CPU, TINY

ALIASES = ["same", "dot", "absolute", "up", "symlink", "hard link", "through a linked folder", "chain of links"]


def alias(case, name, how, suffix):
    """Another path to the file `name`, which may need the suffix `suffix`."""
    source = case.path(name)
    link = "alias" + suffix
    match how:
        case "same":
            return name
        case "dot":
            return "./" + name
        case "absolute":
            return str(source)
        case "up":
            case.path("sub").mkdir(exist_ok=True)
            case.expected("sub")
            return f"sub/../{name}"
        case "symlink":
            case.path(link).symlink_to(name)
        case "hard link":
            os.link(source, case.path(link))
        case "through a linked folder":
            case.path("door").symlink_to(".")
            case.expected("door")
            return f"door/{name}"
        case "chain of links":
            case.path("first").symlink_to(source)
            case.path(link).symlink_to("first")
            case.expected("first")
    case.expected(link)
    return link


def writing(case):
    """All (arguments, output flag, inputs) by which a command could overwrite one of its inputs."""
    lab = case.lab
    case.put("t.csv", lab.files["t.csv"])
    case.put("t.npy", lab.files["t.npy"])
    case.put("y.csv", lab.label_files["y.csv"])
    case.put("c.toml", b"epochs = 1\n")
    case.put("m.pervade", lab.named)
    case.put("m.csv", lab.named)
    fit = ["fit", "t.csv", "-k", "3", "--labels", "y.csv", "--config", "c.toml", "--hidden", "8", "--latents", "2", "--pretrain-epochs", "1", *CPU]
    inputs = ["t.csv", "y.csv", "c.toml"]
    table = []
    for name in inputs:
        table += [(fit, "-o", name, ".pervade")] + [([*fit, "-o", "out.pervade"], flag, name, ".json") for flag in ("--record", "--log")]
    for command in ("assign", "embed", "reconstruct", "score"):
        for model in ("m.pervade", "m.csv"):
            words = [command, model, "t.csv", "--labels", "y.csv", *CPU]
            table += [(words, "-o", name, ".csv") for name in ("t.csv", model, "y.csv")]
        table.append(([command, "m.pervade", "t.npy", *CPU], "-o", "t.npy", ".npy"))
    table += [(["generate", "m.csv", *CPU], "-o", "m.csv", ".csv"), (["generate", "m.pervade", *CPU], "-o", "m.pervade", ".csv")]
    compare = ["compare", "t.csv", "-k", "2", "--methods", "k-means", "--seeds", "1", "--labels", "y.csv", *CPU]
    table += [(compare, "-o", name, ".csv") for name in ("t.csv", "y.csv")]
    return table


@family(8)
def output_is_input(case):
    """An output that is an input, by whatever name, is refused and the input is kept."""
    table = writing(case)
    words, flag, name, suffix = table[case.index // len(ALIASES) % len(table)]
    out = alias(case, name, ALIASES[case.index % len(ALIASES)], suffix)
    force = ["--force"] if case.rng.random() < 0.3 else []
    words = [*words, flag, out, *force, *(["--json"] if case.rng.random() < 0.2 else [])]
    case.run(*words, outputs=["out.pervade"], keeps=["out.pervade.checkpoint"], expect=({2}, "output is input", f"{flag} is the input {name}"))


@family(2)
def output_is_output(case):
    """Two outputs of one command that are the same file are refused."""
    case.put("t.csv", case.lab.files["t.csv"])
    flags = [("-o", "--record"), ("-o", "--log"), ("--record", "--log")][case.index % 3]
    name = "o.json" if flags[0] == "--record" else "o.pervade"
    other = [name, "./" + name, str(case.path(name)), "door/" + name, "link"][case.index // 3 % 5]
    case.path("door").symlink_to(".")
    case.path("link").symlink_to(name)
    case.expected("door", "link")
    out = [] if flags[0] == "-o" else ["-o", "out.pervade"]
    case.run("fit", "t.csv", *TINY, *out, flags[0], name, flags[1], other, outputs=[name, "out.pervade"], keeps=["out.pervade.checkpoint", name + ".checkpoint"],
             expect=({2}, "output is output", f"{flags[0]} and {flags[1]} are the same file"))


@family(1)
def output_in_input_folder(case):
    """Files of a folder that is the data are never overwritten."""
    case.put_all("data", case.lab.folders["pictures"])
    victim = case.rng.choice(["data/a/1.png", "data/b/3.png"])
    command = case.index % 4
    force = ["--force"] if case.rng.random() < 0.5 else []
    if command == 0:
        words = ["fit", "data", *TINY, "-o", victim]
    elif command == 1:
        words = ["fit", "data", *TINY, "-o", "out.pervade", case.rng.choice(["--record", "--log"]), victim]
    elif command == 2:
        case.put("m.pervade", case.lab.picture)
        words = ["assign", "m.pervade", "data", *CPU, "-o", victim]
    else:
        words = ["fit", "data", *TINY, "-o", "out.pervade", "--checkpoint", case.rng.choice(["data", "data/a", "data/a/1.png"])]
    keeps = ["out.pervade.checkpoint", victim + ".checkpoint", "data/checkpoint.safetensors", "data/a/checkpoint.safetensors"]
    case.run(*words, *force, outputs=["out.pervade"], keeps=keeps)


def one_writer(case, out, suffix):
    """Arguments of a command that writes `out`, with its small inputs."""
    lab = case.lab
    case.put("in/t.csv", lab.files["t.csv"])
    case.put("in/m.pervade", lab.picture if suffix == ".png" else lab.named)
    match suffix:
        case ".pervade":
            return ["fit", "in/t.csv", *TINY, "-o", out]
        case ".json":
            return ["fit", "in/t.csv", *TINY, "-o", "made.pervade", "--record", out]
        case ".jsonl":
            return ["fit", "in/t.csv", *TINY, "-o", "made.pervade", "--log", out]
        case ".md":
            return ["compare", "in/t.csv", "-k", "2", "--methods", "k-means", "--seeds", "1", *CPU, "-o", out]
        case ".png":
            return ["generate", "in/m.pervade", *CPU, "-o", out]
        case _:
            command = case.rng.choice(["assign", "embed", "reconstruct", "score", "generate"])
            return [command, "in/m.pervade", *([] if command == "generate" else ["in/t.csv"]), *CPU, "-o", out]


KINDS = [".pervade", ".json", ".jsonl", ".md", ".png", ".csv", ".npy", ".parquet"]


@family(6)
def odd_output(case):
    """Devices, folders, missing and read-only folders, names with control characters, long names, loops of links."""
    rng, suffix = case.rng, KINDS[case.index % len(KINDS)]
    odd = rng.choice(damage.NAMES)
    outputs = ["/dev/full", "/dev/null", "folder", "missing/x" + suffix, "", ".", "..", "folder/", "x" * 300 + suffix, "d/" * 2100 + "x" + suffix,
              "loop" + suffix, "dangling" + suffix, "in/t.csv/x" + suffix, "/proc/self/x" + suffix, os.fsencode("./") + odd + suffix.encode(), "-" + suffix, "folder" + suffix,
              "link" + suffix]
    out = outputs[case.index // len(KINDS) % len(outputs)]
    words = one_writer(case, out, suffix)
    for folder in ("folder", "folder" + suffix):
        case.path(folder).mkdir()
    case.path("loop" + suffix).symlink_to("loop" + suffix)
    case.path("dangling" + suffix).symlink_to("nowhere/else" + suffix)
    case.path("link" + suffix).symlink_to("target" + suffix)
    case.expected("folder", "folder" + suffix, "loop" + suffix, "dangling" + suffix, "link" + suffix)
    outs = ["made.pervade", "target" + suffix, "target" + suffix + ".checkpoint"]
    keeps = ["made.pervade.checkpoint"]
    if isinstance(out, bytes):
        outs.append(out)
        keeps.append(out + b".checkpoint")
    elif out in ("-" + suffix, "link" + suffix):
        outs.append(out)
    words += rng.choice([[], [], ["--json"], ["--force"], ["--quiet"]])
    ran = case.run(*words, outputs=outs, keeps=keeps)
    # A log that cannot be written is only a warning if the model is written.
    refused = out in ("folder", "missing/x" + suffix, "", "loop" + suffix) or (out == "/dev/full" and suffix != ".jsonl")
    if refused and ran.status != 2:
        case.fail("status", f"exit {ran.status} for the output {out!r}")


@family(2)
def kept_file(case):
    """A file of another kind is kept; with --force it is replaced; a file of the same kind is replaced and keeps its mode."""
    rng, suffix = case.rng, [".pervade", ".json", ".png", ".npy", ".parquet", ".csv"][case.index % 6]
    out, precious = "old" + suffix, b"precious\0" + rng.randbytes(50)
    words = one_writer(case, out, suffix)
    outs, keeps = ["made.pervade"], ["made.pervade.checkpoint"]
    case.put(out, precious)
    case.run(*words, outputs=outs, keeps=keeps, expect=({2}, "overwritten", "a file of another kind was replaced without --force"))
    del case.inputs[case.path(out)]
    case.path(out).unlink(missing_ok=True)
    case.run(*words, outputs=[*outs, out], keeps=keeps, status={0})
    if not case.path(out).exists():
        return
    mode = rng.choice([0o600, 0o640, 0o644])
    case.path(out).chmod(mode)
    before = case.path(out).read_bytes()
    case.run(*words, outputs=[*outs, out], keeps=keeps, status={0})
    if (now := case.path(out).stat().st_mode & 0o777) != mode:
        case.fail("mode", f"{out} had mode {mode:o} and has {now:o} after it was replaced")
    if suffix != ".json" and case.path(out).read_bytes() != before:
        case.fail("other bytes", f"the same command wrote another {out}")


@family(1)
def foreign_link(case):
    """A link that another user planted at an output is not followed."""
    if not case.lab.root:
        case.skipped = "needs root, to make a link of another user"
        return
    suffix = KINDS[case.index % len(KINDS)]
    case.put("victim", b"precious\n" if suffix in (".csv", ".md") else case.lab.named if suffix == ".pervade" else b'{"a": 1}\n')
    out = "planted" + suffix
    words = one_writer(case, out, suffix)
    if case.index // len(KINDS) % 2 and suffix == ".pervade":
        case.path("checkpoints").mkdir()
        case.path("checkpoints/checkpoint.safetensors").symlink_to("../victim")
        os.lchown(case.path("checkpoints/checkpoint.safetensors"), NOBODY, NOBODY)
        case.expected("checkpoints", "checkpoints/checkpoint.safetensors")
        case.run("fit", "in/t.csv", *TINY, "-o", "made.pervade", "--checkpoint", "checkpoints", "--checkpoint-seconds", "0", outputs=["made.pervade"],
                 keeps=["made.pervade.checkpoint"])
        return
    case.path(out).symlink_to("victim")
    os.lchown(case.path(out), NOBODY, NOBODY)
    case.expected(out)
    case.run(*words, outputs=["made.pervade", out], keeps=["made.pervade.checkpoint"])


@family(1)
def read_only(case):
    """A user without write permission: one error, no files left, inputs unchanged."""
    if not case.lab.root:
        case.skipped = "needs root, to run as another user"
        return
    suffix = KINDS[case.index % len(KINDS)]
    words = one_writer(case, "x" + suffix, suffix)
    case.run(*words, as_nobody=True, expect=({2}, "status", "an output in a folder that must not be written"))
    if case.index % 3 == 0:
        secret = case.put("in/secret.csv", case.lab.files["t.csv"])
        case.path(secret).chmod(0)
        case.run("assign", "in/m.pervade", secret, *CPU, as_nobody=True, expect=({2}, "status", "an input that must not be read"))


@family(1)
def interrupted_writer(case):
    """Commands that only read a model and write a table, stopped at a random moment."""
    rng, suffix = case.rng, case.rng.choice([".csv", ".npy", ".parquet", ".png"])
    words = one_writer(case, "x" + suffix, suffix)
    if "generate" == words[0]:
        words += ["-n", "20000" if suffix != ".png" else "200"]
    else:
        case.put("in/t.csv", b"a,b,c\n" + case.lab.files["t.csv"].split(b"\n", 1)[1] * 100)
    case.run(*words, outputs=["x" + suffix], after=[(rng.uniform(0, 0.06), rng.choice([signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGKILL]))])


@family(0.1)
def large_picture(case):
    """Pictures that would need gigabytes."""
    case.put_all("data", {f"{i}.png": case.lab.large_png for i in range(case.rng.choice([1, 3]))})
    case.run("fit", "data", *TINY, "-o", "m.pervade", outputs=["m.pervade"], keeps=["m.pervade.checkpoint"], memory_mb=case.rng.choice([300, 600]))
