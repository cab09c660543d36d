"""Damaged and forged models and checkpoints."""

import json
import struct

from . import damage, family
from .lab import CHECKPOINT, CPU, LONG

COMMANDS = ["inspect", "assign", "embed", "generate", "reconstruct", "score", "evaluate", "export", "card"]


def split(data):
    n = struct.unpack("<Q", data[:8])[0]
    return json.loads(data[8:8 + n]), data[8 + n:]


def joined(header, tensors, ensure_ascii=True):
    text = json.dumps(header, ensure_ascii=ensure_ascii, separators=(",", ":")).encode()
    return struct.pack("<Q", len(text)) + text + tensors


def forged(rng, data):
    """Bytes whose header was edited as JSON: shapes, offsets, kinds, metadata at any depth."""
    header, tensors = split(data)
    match rng.randrange(5):
        case 0:
            name = rng.choice(sorted(header))
            header.pop(name)
        case 1:
            name = rng.choice(sorted(k for k in header if k != "__metadata__"))
            header[name][rng.choice(["shape", "data_offsets"])] = rng.choice([[0], [2**63], [-1], [1, 2], [0, 2**40], "x", None, [], [4294967296, 4294967296]])
        case 2:
            name = rng.choice(sorted(k for k in header if k != "__metadata__"))
            header[name]["dtype"] = rng.choice(["F64", "I8", "BF16", "\x1b[31m", "", 3])
        case _:
            entries = header["__metadata__"]
            name = rng.choice(sorted(entries))
            entries[name] = edited(rng, entries[name])
    return joined(header, tensors, rng.random() < 0.5)


def edited(rng, text):
    """One value of a JSON text, anywhere in it, is replaced."""
    try:
        tree = json.loads(text)
    except ValueError:
        return damage.spoil(rng, text.encode()).decode("utf-8", "replace")
    if isinstance(tree, dict) and rng.random() < 0.8:
        # Without its checksum a file counts as one of an earlier version, and its content must be checked.
        tree.pop("checksum", None)
    node, holder, key = tree, None, None
    while isinstance(node, (dict, list)) and node and rng.random() < 0.9:
        holder, key = node, rng.choice(sorted(node) if isinstance(node, dict) else range(len(node)))
        node = holder[key]
    if holder is None:
        return rng.choice(["{}", "[]", "null", "1e999", '"x"', "{" * 500, ""])
    holder[key] = rng.choice([None, -1, 0, 1e300, 2**31, 2**63, "", "\x1b[31mred", "\u009b31m", [], {}, [[]], True, 0.5, "exact", [0] * 100, 5])
    return json.dumps(tree, ensure_ascii=rng.random() < 0.5)


def use_model(case, command, model, **options):
    words = ["--json"] if case.rng.random() < 0.3 else []
    if command == "export":
        return case.run(command, model, "--onnx", "g.onnx", *words, *CPU, **{**options, "outputs": [*options.get("outputs", []), "g.onnx"]})
    if command in ("inspect", "generate", "card"):
        return case.run(command, model, *words, *CPU, **options)
    case.put("t.csv", case.lab.files["t.csv"])
    if command == "evaluate":
        words += ["--labels", case.put("y.txt", case.lab.label_files["y.txt"])]
    return case.run(command, model, "t.csv", *words, *CPU, **options)


@family(9)
def damaged_model(case):
    """A model with any changed byte is refused."""
    rng = case.rng
    data = rng.choice([case.lab.named, case.lab.plain, case.lab.picture])
    spoilt = damage.spoil(rng, data)
    case.put("m.pervade", spoilt)
    command = COMMANDS[case.index % len(COMMANDS)]
    ran = use_model(case, command, "m.pervade")
    if ran.status == 0 and changed_weights(data, spoilt):
        case.fail("undetected change", f"`{command}` accepted a model whose weights were changed")


def changed_weights(before, after):
    """Whether the same header now comes with other tensors."""
    start = 8 + struct.unpack("<Q", before[:8])[0]
    return before[:start] == after[:start] and before[start:] != after[start:]


@family(2)
def flipped_bit(case):
    """A single flipped bit in the weights is found by every command."""
    data = bytearray(case.rng.choice([case.lab.named, case.lab.plain]))
    start = 8 + struct.unpack("<Q", data[:8])[0]
    data[case.rng.randrange(start, len(data))] ^= 1 << case.rng.randrange(8)
    case.put("m.pervade", bytes(data))
    use_model(case, COMMANDS[case.index % len(COMMANDS)], "m.pervade", expect=({2}, "undetected change", "a flipped bit in the weights passed"))


@family(6)
def forged_model(case):
    """A model whose header was rewritten: other shapes, other settings, control characters in its text."""
    case.put("m.pervade", forged(case.rng, case.rng.choice([case.lab.named, case.lab.plain, case.lab.picture])))
    use_model(case, COMMANDS[case.index % len(COMMANDS)], "m.pervade")


@family(2)
def other_file_as_model(case):
    rng = case.rng
    files = {**case.lab.files, **case.lab.readers, "checkpoint": case.lab.checkpoints[0], "empty": b"", "eight": bytes(8), "text": b"hello",
             "long": struct.pack("<Q", 2**63) + b"{}", "deep": struct.pack("<Q", 60000) + b'{"a":' * 12000}
    case.put("m.pervade", files[rng.choice(sorted(files))])
    use_model(case, rng.choice(COMMANDS), "m.pervade", expect=({2}, "no model", "a file that is no model was taken for one"))


def resume(case, data, **options):
    case.put("long.npy", case.lab.long_npy)
    case.put(f"m.pervade.checkpoint/{CHECKPOINT}", data, guard=False)
    case.expected("m.pervade.checkpoint", f"m.pervade.checkpoint/{CHECKPOINT}")
    words = ["--json"] if case.rng.random() < 0.3 else []
    ran = case.run("fit", "long.npy", *LONG, *words, "--resume", "-o", "m.pervade", outputs=["m.pervade"], **options)
    check_resumed(case, ran, data)
    return ran


def check_resumed(case, ran, data):
    held = case.path(f"m.pervade.checkpoint/{CHECKPOINT}")
    if ran.status == 0:
        if case.path("m.pervade").read_bytes() != case.lab.long_model:
            case.fail("other model", "resumed to another model than that of an uninterrupted run")
    elif ran.status == 2 and (not held.exists() or held.read_bytes() != data):
        case.fail("checkpoint lost", f"a refused run left {'another' if held.exists() else 'no'} checkpoint")


@family(3)
def damaged_checkpoint(case):
    """A checkpoint with any changed byte is refused and kept, or leads to the same model."""
    resume(case, damage.spoil(case.rng, case.rng.choice(case.lab.checkpoints)))


@family(2)
def forged_checkpoint(case):
    """A checkpoint whose header was rewritten."""
    resume(case, forged(case.rng, case.rng.choice(case.lab.checkpoints)))


@family(0.5)
def flipped_bit_in_checkpoint(case):
    data = bytearray(case.rng.choice(case.lab.checkpoints))
    start = 8 + struct.unpack("<Q", data[:8])[0]
    data[case.rng.randrange(start, len(data))] ^= 1 << case.rng.randrange(8)
    resume(case, bytes(data), expect=({2}, "undetected change", "a flipped bit in a checkpoint passed"))


@family(0.3)
def other_file_as_checkpoint(case):
    files = {**case.lab.files, "model": case.lab.long_model, "empty": b"", "text": b"hello"}
    resume(case, files[case.rng.choice(sorted(files))], expect=({2}, "no checkpoint", "a file that is no checkpoint was taken for one"))
