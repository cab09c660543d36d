"""Flags with values at and beyond every limit, combined at random, and arguments that are not flags."""

import signal

from . import damage, family
from .lab import CPU, NET

SETTINGS = ["--learning-rate", "--pretrain-learning-rate", "--mixture-learning-rate", "--learning-rate-floor", "--neighbour-weight", "--decay", "--epsilon",
            "--dropout", "--noise-variance"]
FLOATS = [("fit", flag) for flag in [*SETTINGS, "--checkpoint-seconds"]] + [("evaluate", "--at-least"), ("bench", "--seconds"),
                                                                            ("doctor", "--seconds")]
FLOAT_VALUES = ["nan", "NaN", "inf", "-inf", "infinity", "1e39", "-1", "0", "-0.0", "1e-46", "1e400", "1e308", "", "abc", "1,5", "0x10",
                "1e-320", "+1", " 1", "1_000", "\u0663"]
FIT_INTS = ["--clusters", "--components", "--pretrain-epochs", "--epochs", "--restarts", "--starts", "--seed", "--latents", "--hidden", "--batch",
            "--samples", "--layer-epochs", "--pretrain-batch", "--cool-down", "--mixture-starts", "--neighbours", "--graph-rows",
            "--decay-every", "--threads", "--image"]
INTS = ([("fit", flag) for flag in FIT_INTS] + [("generate", f) for f in ("--cluster", "--count", "--seed", "--threads")]
        + [("compare", f) for f in ("--clusters", "--seeds", "--hidden", "--pretrain-epochs", "--epochs", "--threads")]
        + [(c, "--threads") for c in ("assign", "embed", "reconstruct", "score", "evaluate", "inspect", "completions")]
        + [("reproduce", f) for f in ("--seeds", "--take", "--hidden", "--pretrain-epochs", "--epochs")]
        + [("demo", "--seed")])
RARE_INTS = [("bench", f) for f in ("--batch", "--columns", "--restarts", "--components", "--threads")] + [("doctor", "--threads")] + [("explore", f) for f in ("--port", "--points", "--threads")]
INT_VALUES = ["0", "-1", "1", "65536", "4294967295", "4294967296", "9223372036854775807", "18446744073709551615", "18446744073709551616", "",
              "1.5", "1e3", "+3", " 3", "3 ", "0x3", "three", "-0", "00003", "9" * 400, "1,1", "8,", ",8", "\u0663", "auto", "8,8,8,8,8,8,8,8"]
# Large values of these are valid, and take long: the run is interrupted.
PATIENT = {"--pretrain-epochs", "--epochs", "--restarts", "--starts", "--layer-epochs", "--mixture-starts", "--seeds", "--count", "--take", "--samples",
           "--seconds", "--checkpoint-seconds"}
DEFAULTS = {"fit": {"-k": "3", "--hidden": "8", "--latents": "2", "--pretrain-epochs": "1", "--epochs": "1", "--device": "cpu", "--threads": "1"}}


def words_of(case, command, flags):
    """The command's arguments, with small defaults for those that `flags` (a list of pairs) does not set; and its outputs."""
    given = dict(flags)
    lab = case.lab
    if "--clusters" in given:
        given["-k"] = given.pop("--clusters")
    defaults = {"--device": "cpu", "--threads": "1"}
    outputs, keeps, front = [], [], []
    if command in ("assign", "embed", "reconstruct", "score", "evaluate", "inspect", "generate", "explore", "export", "card"):
        front.append(case.put("m.pervade", lab.picture if command == "generate" and case.rng.random() < 0.3 else lab.named))
    if command in ("fit", "compare", "assign", "embed", "reconstruct", "score", "evaluate", "explore"):
        front.append(case.put("t.csv", lab.files["t.csv"]))
    if command == "fit":
        defaults = dict(DEFAULTS["fit"], **{"-o": "out.pervade"})
        outputs, keeps = ["out.pervade"], ["out.pervade.checkpoint"]
    elif command == "compare":
        defaults |= {"-k": "2", "--methods": case.rng.choice(["k-means", "gmm", "vade"]), "--seeds": "1", "--hidden": "8", "--epochs": "1",
                     "--pretrain-epochs": "1"}
    elif command == "evaluate":
        defaults["--labels"] = case.put("y.txt", lab.label_files["y.txt"])
    elif command == "generate":
        out = case.rng.choice([None, "g.csv", "g.npy", "g.png", "g.parquet"])
        if out:
            defaults["-o"], outputs = out, [out]
    elif command == "export":
        defaults["--onnx"], outputs = "g.onnx", ["g.onnx"]
    elif command == "reproduce":
        front = [case.rng.choice(["table1", "table2", "table3", "figure-accuracy", "all"]), "--dry-run", "--data", "."]
        outputs = ["repro"]
    elif command == "bench":
        front = ["step"]
        defaults |= {"--batch": "4", "--columns": "4", "--seconds": "0.01"}
    elif command == "doctor":
        defaults["--seconds"] = "0.001"
    elif command == "explore":
        front.append("--no-open")
    elif command == "completions":
        front = [case.rng.choice(["bash", "zsh", "fish", "elvish", "powershell"])]
    elif command == "demo":
        outputs = keeps = ["pervade-demo"]
    for flag, value in defaults.items():
        given.setdefault(flag, value)
    flat = [word for flag, value in given.items() for word in ([f"{flag}={value}"] if value.startswith("-") and flag.startswith("--") else [flag, value])]
    return [command, *front, *flat], outputs, keeps


def interrupt(command, flags):
    """Signals for a run that may take long by design."""
    long = any(flag in PATIENT for flag, _ in flags) or command in ("demo", "doctor", "bench", "explore")
    return [(0.7, signal.SIGINT)] if long else []


def arrived(case, ran, flag, value, parse):
    """After a fit that succeeded, the model's settings hold the value that was typed."""
    model = case.path("out.pervade")
    if ran.status != 0 or not model.exists() or flag in ("--threads", "--checkpoint-seconds", "--image"):
        return
    shown = case.run("inspect", "out.pervade", "--json", outputs=["out.pervade"])
    try:
        held, typed = shown.json()["settings"].get(flag[2:].replace("-", "_")), parse(value)
    except (ValueError, KeyError):
        return
    same = held == typed or (isinstance(held, float) and abs(held - typed) <= 1e-6 * abs(typed))
    if not same:
        case.fail("lost value", f"{flag} {value!r} was accepted, but the model has {held!r}")


@family(4)
def float_flags(case):
    n = len(FLOAT_VALUES)
    command, flag = FLOATS[case.index // n % len(FLOATS)]
    if command in ("doctor", "bench") and case.index % 3:
        command, flag = "fit", case.rng.choice(SETTINGS)
    value = FLOAT_VALUES[case.index % n]
    flags = [(flag, value)]
    if flag == "--noise-variance":
        flags.append(("--likelihood", "gaussian-fixed"))
    if flag in ("--dropout",):
        flags += [("--pretrain", "stacked"), ("--layer-epochs", "1")]
    words, outputs, keeps = words_of(case, command, flags)
    if case.rng.random() < 0.3:
        words.append("--json")
    ran = case.run(*words, outputs=outputs, keeps=keeps, after=interrupt(command, flags) if command != "fit" else [])
    if command == "fit":
        arrived(case, ran, flag, value, float)


@family(5)
def integer_flags(case):
    n = len(INT_VALUES)
    command, flag = INTS[case.index // n % len(INTS)]
    value = INT_VALUES[case.index % n]
    run_int(case, command, flag, value)


@family(0.3)
def integer_flags_of_slow_commands(case):
    command, flag = RARE_INTS[case.index % len(RARE_INTS)]
    run_int(case, command, flag, INT_VALUES[case.index // len(RARE_INTS) % len(INT_VALUES)])


def run_int(case, command, flag, value):
    flags = [(flag, value)]
    if flag == "--layer-epochs":
        flags.append(("--pretrain", "stacked"))
    words, outputs, keeps = words_of(case, command, flags)
    if case.rng.random() < 0.3:
        words.append("--json")
    ran = case.run(*words, outputs=outputs, keeps=keeps, after=interrupt(command, flags), stdout="/dev/null" if flag == "--count" else None)
    if command == "fit" and flag not in ("--clusters", "--hidden"):
        arrived(case, ran, flag, value, int)


CHOICES = {"--recipe": ["robust", "paper", "x"], "--prepare": ["none", "unit", "standardise", "row-norm", ""], "--gamma": ["exact", "sampled"],
           "--likelihood": ["auto", "bernoulli", "gaussian", "gaussian-fixed"], "--pretrain": ["end-to-end", "stacked"], "--network": ["dense", "conv"],
           "--choose": ["modularity", "elbo"], "--keep": ["best", "last"], "--clusters": ["auto", "1", "2", "60", "61", "1000"],
           "--components": ["1", "2", "3", "5", "60", "61", "5000"], "--batch": ["1", "7", "60", "61", "100000"], "--image": ["1x3", "3x1", "2x2", "1x1x3", "x"],
           "--pretrain-batch": ["1", "59", "100000"], "--samples": ["1", "2", "9"], "--latents": ["1", "2", "3", "64"], "--neighbours": ["1", "59", "60", "1000"],
           "--graph-rows": ["1", "2", "10", "59"], "--mixture-starts": ["1", "2"], "--starts": ["1", "2"], "--restarts": ["1", "2"],
           "--decay": ["0.1", "1", "2"], "--decay-every": ["1", "1000"], "--learning-rate": ["1e-9", "1", "100", "1e30"], "--cool-down": ["0", "1", "100"],
           "--hidden": ["1", "2,3", "8,8,8,8", "1000"], "--epochs": ["0", "1", "2"], "--pretrain-epochs": ["0", "1", "2"], "--noise-variance": ["1e-30", "0.5", "1e30"],
           "--labels": ["column:a", "column:last", "column:none", "y"], "--array": ["x", "nope"], "--missing": ["1", "-999,0", ""],
           "--type": ["a=count", "a=category", "b=yes/no", "c=keep,a=date", "a=ordered", "x=count", "a", "=", "a=ordered: 1 < 2"],
           "--keep-columns": ["a", "a,b,c", "x", ""], "--checkpoint": ["none", "here"],
           "--checkpoint-seconds": ["0", "5"], "--precision": ["tf32", "fp32"], "--device": ["cpu", "cuda", "cuda:9", "gpu", "auto", ""], "--seed": ["0", "1", "42"],
           "--threads": ["1", "2", "3"], "--log": ["log.jsonl"], "--record": ["record.json"], "--epsilon": ["1e-8", "1"],
           "--tensorboard": ["runs"]}


@family(6)
def combinations(case):
    """Random plausible settings of a fit: it ends with a model that loads, or with one error."""
    rng = case.rng
    flags = [(flag, rng.choice(CHOICES[flag])) for flag in rng.sample(list(CHOICES), rng.randrange(1, 7))]
    words, outputs, keeps = words_of(case, "fit", flags)
    words += [flag for flag in ("--json", "--quiet", "--resume", "--missing-informative", "--decimal-comma") if rng.random() < 0.2]
    if rng.random() < 0.1:
        words += rng.choice([["--seed", "1"], ["--json"], ["--hidden", "4"], ["--out", "other.pervade"], ["t.csv"], ["-k", "2"]])
    case.put("t.csv", rng.choice([case.lab.files["t.csv"], b"a,b,c\n1,1,1\n", b"a,b,c\n" + b"1,1,1\n" * 60, b"a,b,c\n" + b"3e38,-3e38,1e-38\n" * 60,
                                  b"a,b,c\n0,0,1\n1,0,0\n" * 1 + b"0,1,0\n" * 40, b"a,b,c\n" + b"1,,x\n,2,y\n3,4,\n" * 20]))
    ran = case.run(*words, outputs=[*outputs, "log.jsonl", "record.json", "other.pervade", "runs"], keeps=[*keeps, "here"])
    if ran.status == 0 and (model := case.path("out.pervade")).exists():
        case.inputs[model] = model.read_bytes()
        loaded = case.run("inspect", "out.pervade", outputs=["log.jsonl", "record.json", "runs"])
        if loaded.status != 0:
            case.fail("unreadable model", f"written with exit 0, and `inspect` refuses it: {loaded.stderr[:200]!r}")


ALL_COMMANDS = ["fit", "assign", "embed", "generate", "reconstruct", "score", "evaluate", "compare", "inspect", "export", "card", "demo", "reproduce", "bench",
                "doctor", "completions", "explore"]


@family(3)
def words(case):
    """Unknown commands and flags, missing and doubled arguments, bytes that are not text, very many and very long arguments."""
    rng = case.rng
    odd = ["", "-", "--", "---", "--=", "-k", "--json", "-q", "--help", "-h", "--version", "-V", "--nope", "--seed=", "-kk", "\x1b[31m", b"\xff\xfe",
           b"--\xff", "A" * 70000, "*", "../..", "~", "--out", "-o", "--json=true", "help", "--resume", "--device", "--device=cuda:99999999999999999999"]
    command = rng.choice([*ALL_COMMANDS, "help", "frob", "", b"\xff", "\x1b[2J"])
    if command in ("demo", "doctor", "bench"):
        words_ = [command, "--nope", *rng.choices(odd, k=rng.randrange(3))]
    else:
        words_ = [command, *rng.choices(odd, k=rng.choice([0, 1, 2, 5, 300]))]
    case.run(*words_, outputs=["repro"])


@family(2)
def other_commands(case):
    """reproduce, completions, demo, bench and doctor with hostile rows, folders and shells."""
    rng, lab = case.rng, case.lab
    match case.index % 5:
        case 0 | 1:
            rows = b"""[[data]]\nname = "d"\nfile = "t.csv"\nclusters = 3\n[[row]]\ntable = "table2"\ndata = "d"\nmethod = "k-means"\nvalue = 1.0\n"""
            case.put("rows.toml", damage.spoil(rng, rows) if rng.random() < 0.8 else rows)
            case.put("t.csv", lab.files["t.csv"])
            case.run("reproduce", rng.choice(["table1", "table2", "table3", "all"]), "--rows", "rows.toml", "--data", ".", "--seeds", "1", *CPU, "-o", "out",
                     *rng.choice([[], ["--dry-run"], ["--redraw"], ["--json"], ["--again"]]), outputs=["out"])
        case 2:
            case.put("out/records/table2/d.json", damage.spoil(rng, b'{"method": "k-means", "runs": [{"seed": 0, "accuracy": 0.5}]}'))
            case.put(f"out/records/{rng.choice(['mnist', 'x'])}.json", b"{" * 50)
            case.run("reproduce", rng.choice(["table1", "table2", "all", "figure-accuracy"]), "--redraw", "-o", "out", *rng.choice([[], ["--data", "."]]), outputs=["out"])
        case 3:
            case.run("completions", rng.choice(["bash", "zsh", "fish", "powershell", "elvish", "sh", "", "\x1b[1m", b"\xff", "BASH"]),
                     *rng.choice([[], ["--json"], ["--quiet"]]))
        case _:
            case.put("file", b"precious")
            out = rng.choice(["file", "file/below", "/dev/full", "/proc/x", "no/such/folder", b"caf\xe9", "esc\x1b[2J"])
            case.run("demo", "-o", out, *CPU, after=[(0.5, rng.choice([signal.SIGINT, signal.SIGTERM, signal.SIGHUP]))], outputs=[out, "no"],
                     keeps=[out, "no"])
