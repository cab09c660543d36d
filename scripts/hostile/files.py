"""Damaged input files of every format, and files with false claims or control characters, for every command that reads one."""

import gzip
import io
import os
import signal
import threading
import zipfile

from . import damage, family
from .lab import CPU, TINY, csv, idx, mat, npy, npy_header, npz, png

READING = ("assign", "embed", "reconstruct", "score", "evaluate", "fit", "fit", "compare")
OUTS = (".csv", ".npy", ".parquet")


def use(case, data, labels=None, extra=(), command=None, **options):
    """Runs one of the commands that read a table, with or without an output file and `--json`."""
    rng = case.rng
    command = command or rng.choice(READING)
    words = ["--labels", labels] if labels else []
    if rng.random() < 0.4:
        words.append("--json")
    if command == "fit":
        out = "out.pervade"
        return case.run("fit", data, *TINY, *words, *extra, "-o", out, outputs=[out], keeps=[out + ".checkpoint"], **options)
    if command == "compare":
        out = rng.choice(["out.md", "out.csv", "out.json"])
        return case.run("compare", data, "-k", "2", "--methods", rng.choice(["k-means", "gmm", "gmm-full", "spectral,k-means"]),
                        "--seeds", "1", *words, *extra, *CPU, "-o", out, outputs=[out], **options)
    case.put("m.pervade", rng.choice([case.lab.named, case.lab.plain]))
    if command == "evaluate":
        if not labels:
            case.put("labels.txt", case.lab.label_files["y.txt"])
            words += ["--labels", "labels.txt"]
        return case.run("evaluate", "m.pervade", data, *words, *extra, *CPU, **options)
    out = []
    if rng.random() < 0.6:
        out = ["out" + rng.choice(OUTS)]
        words += ["-o", *out]
    if command == "assign" and rng.random() < 0.3:
        words.append("--probabilities")
    return case.run(command, "m.pervade", data, *words, *extra, *CPU, outputs=out, **options)


def damaged(name, seeds, share, labels=(None,)):
    """Registers a family that damages one of `seeds(lab)`, pairs of file name and bytes."""
    def work(case):
        file, data = case.rng.choice(seeds(case.lab))
        case.put(file, damage.spoil(case.rng, data))
        use(case, file, case.rng.choice(labels))

    family(share, name="damaged-" + name)(work)


def of(*suffixes):
    def seeds(lab):
        both = [*lab.files.items(), *lab.readers.items()]
        return [(name, data) for name, data in both if name.endswith(suffixes) and not name.startswith("labels")]

    return seeds


damaged("npy", of(".npy"), 4)
damaged("npz", of(".npz"), 4, (None, "y", "file:y"))
damaged("csv", of(".csv"), 4, (None, "column:last", "column:kind", "column:nope"))
damaged("tsv", of(".tsv", ".txt"), 2)
damaged("gz", of(".gz"), 3)
damaged("parquet", of(".parquet"), 10, (None, "column:last", "column:label"))
damaged("idx", of(".idx"), 2)
damaged("svmlight", of(".svm", ".libsvm"), 2, (None, "column:last", "y"))
damaged("mat", of(".mat"), 3, (None, "y"))


@family(2)
def damaged_gz_content(case):
    """Damage below the compression, with a correct checksum."""
    name = case.rng.choice(["t.csv", "t.npy", "t.idx", "t.svm", "t.tsv"])
    case.put(name + ".gz", gzip.compress(damage.spoil(case.rng, case.lab.files[name]), mtime=0))
    use(case, name + ".gz")


@family(3)
def damaged_folder(case):
    """One or two files of a folder are damaged or missing, or there is an extra file."""
    rng = case.rng
    folder = rng.choice(list(case.lab.folders))
    files = dict(case.lab.folders[folder])
    for _ in range(rng.choice([1, 1, 2])):
        name = rng.choice(list(files))
        match rng.randrange(5):
            case 0 | 1 | 2:
                files[name] = damage.spoil(rng, files[name])
            case 3:
                del files[name]
                if not files:
                    files["nothing.txt"] = b""
            case _:
                files[os.path.dirname(name) + "/extra" + os.path.splitext(name)[1]] = rng.randbytes(40)
    files = {name.lstrip("/"): data for name, data in files.items()}
    case.put_all("data", files)
    use(case, "data", rng.choice([None, "y"]), command=rng.choice(["fit", "compare", "assign", "evaluate"]))


@family(3)
def damaged_labels(case):
    rng = case.rng
    name = rng.choice(list(case.lab.label_files))
    data = case.lab.label_files[name]
    match rng.randrange(4):
        case 0:
            data = data[:len(data) // 2]
        case 1:
            data = b"nan\n" * 60 if name.endswith("txt") else damage.spoil(rng, data)
        case _:
            data = damage.spoil(rng, data)
    case.put(name, data)
    case.put("t.csv", case.lab.files["t.csv"])
    use(case, "t.csv", name, command=rng.choice(["fit", "evaluate", "assign", "compare"]))


def lies(rng):
    """Names and bytes (or a function that makes them) of files with false claims, or that need more memory than a table should."""
    huge = rng.choice([2**31, 2**32 - 1, 2**32, 2**40, 2**62, 2**63 - 1])
    header = "{'descr': '%s', 'fortran_order': %s, 'shape': %s, }"
    shape = rng.choice([f"({huge}, 3)", f"(3, {huge})", f"({huge}, {huge})", "(0, 3)", "(3, 0)", "()", "(-1, 3)", "(60, 3, 1, 1, 1)",
                        "(60,)", "(99999999999999999999999999, 2)", "(60, 3"])
    kind = rng.choice(["<f4", "<f8", "<f2", "|b1", "<c8", "|O", "<U4", "<f3", "\x1b[31m", "[('a', '<f4')]", ""])
    yield "lie.npy", npy_header(header % (kind, rng.choice(["True", "False", "\x1b]0;x\x07"]), shape)) + bytes(64)
    yield "lie.npy", b"\x93NUMPY" + rng.choice([b"\1\0\xff\xff", b"\2\0\xff\xff\xff\x7f", b"\3\0\4\0\0\0", b"\x09\0\0\0"]) + b"{'x"
    yield "lie.npz", npz({"x": npy_header(header % ("<f4", "False", shape)) + bytes(32)})
    yield "lie.npz", npz({"data": npy([1.0, 2.0]), "indices": npy([0, rng.choice([1, 2**31 - 1, -1])], "<i4"),
                          "indptr": npy([0, 1, rng.choice([2, 1, 2**31 - 1, -5])], "<i4"),
                          "shape": npy([rng.choice([2, huge, -1]), rng.choice([3, huge])], "<i8")})
    yield "lie.idx", b"\0\0\x08\2" + min(huge, 2**32 - 1).to_bytes(4, "big") * 2 + bytes(8)
    yield "lie.idx", idx([1, 2, 3, 4], (2, 2))[:2] + bytes([rng.randrange(256), rng.randrange(256)]) + bytes(60)
    yield "lie.svm", f"1 {huge}:1\n".encode()
    yield "lie.svm", f"1 1:1 1:2 0:1 -1:3\n{rng.choice(['nan', '1e999', 'x'])} 3:nan\n".encode()
    yield "lie.mat", mat([[1.0, 2.0]])[:-40] + rng.randbytes(40)
    yield "lie.mat", mat([[1.0]]).replace((1).to_bytes(4, "little") * 2, min(huge, 2**31 - 1).to_bytes(4, "little") * 2)
    yield "lie.csv", lambda: (",".join(["1"] * rng.choice([10**4, 10**5, 10**6])) + "\n").encode() * 2
    yield "lie.csv", b"a,b\n" + rng.choice([b"1,\n", b"1,2,3\n", b"\"1\n", b"1," + b"9" * 10**5 + b"\n", b"\0,1\n", b"1;2\n", b"3e38,-3e38\n" * 9])
    yield "lie.gz", lambda: gzip.compress(bytes(rng.choice([10**6, 3 * 10**7])), 1, mtime=0)
    yield "lie.csv.gz", lambda: gzip.compress(rng.choice([b"1,2\n", b"1", b",", b"\n"]) * rng.choice([10**6, 5 * 10**6]), 1, mtime=0)
    yield "lie.png", png(rng.choice([2**15, 2**31 - 1]), rng.choice([1, 2**15]), b"")


@family(4)
def lying_header(case):
    made = list(lies(case.rng))
    name, data = made[case.index % len(made)]
    data = data() if callable(data) else data
    case.put(name, data)
    if name.endswith("png"):
        case.put_all("pictures", {"a.png": data, "b.png": png(4, 4, bytes(16))})
        name = "pictures"
    use(case, name)


@family(1)
def zip_tricks(case):
    """Archives with members of the same name, paths outside the archive, no members, bombs."""
    rng, out = case.rng, io.BytesIO()
    table = npy(case.lab.table)
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as z:
        for name in rng.choice([["../evil.npy"], ["x.npy", "x.npy"], [], ["x.npy", "\x1b[31m.npy"], ["/abs.npy"], ["dir/"], ["bomb.npy"]]):
            if name == "bomb.npy":
                table = npy_header("{'descr': '|u1', 'fortran_order': False, 'shape': (3000, 10000), }") + bytes(3 * 10**7)
            info = zipfile.ZipInfo(name)
            info.compress_type = zipfile.ZIP_DEFLATED
            if name not in z.namelist():
                z.writestr(info, table)
    case.put("t.npz", out.getvalue())
    use(case, "t.npz", rng.choice([None, "y"]), ("--array", rng.choice(["x", "\x1b[31m", "../evil", ""])) if rng.random() < .5 else ())


@family(3)
def escapes(case):
    """Control characters in column names, class names, file names, arrays and settings never reach the terminal raw."""
    rng, lab = case.rng, case.lab
    trick = rng.choice(damage.ESCAPES).decode("utf-8")
    match case.index % 6:
        case 0:
            names = f"a{trick},b,c".replace("\r", "")
            case.put("t.csv", csv(lab.table, names))
            use(case, "t.csv", rng.choice([None, f"column:{trick}"]))
        case 1:
            case.put("t.csv", csv(lab.table, f"a{trick},b,c".replace("\r", "")))
            ran = case.run("fit", "t.csv", *TINY, "-o", "m.pervade", outputs=["m.pervade"], keeps=["m.pervade.checkpoint"])
            if ran.status == 0:
                case.inputs[case.path("m.pervade")] = case.path("m.pervade").read_bytes()
                case.run("inspect", "m.pervade")
                case.put("u.csv", csv(lab.table, "x,y,z"))
                case.run(rng.choice(["assign", "embed", "score"]), "m.pervade", "u.csv", *CPU)
        case 2:
            case.put("y.txt", b"".join(trick.encode() + str(i % 2).encode() + b"\n" for i in range(60)))
            case.put("t.csv", lab.files["t.csv"])
            use(case, "t.csv", "y.txt", command=rng.choice(["fit", "evaluate"]))
        case 3:
            name = rng.choice(damage.NAMES)
            name = name[:200] + b".csv"
            case.put(name, rng.choice([lab.files["t.csv"], b"a,b\n1,x\n"]))
            use(case, b"./" + name)
        case 4:
            case.put("t.npz", npz({"a": npy(lab.table), f"b{trick}": npy(lab.table)}))
            use(case, "t.npz", None, ("--array", rng.choice(["x", f"b{trick}"])))
        case _:
            case.put("c.toml", f'"k{trick}" = 1\nrecipe = "x{trick}"\n'.encode())
            case.put("t.csv", lab.files["t.csv"])
            case.run("fit", "t.csv", "--config", "c.toml", *CPU, "-o", "m.pervade", outputs=["m.pervade"], keeps=["m.pervade.checkpoint"])


@family(1)
def special_file(case):
    """Devices, folders and pipes instead of a file."""
    rng = case.rng
    match case.index % 3:
        case 0:
            case.path("pipe").unlink(missing_ok=True)
            os.mkfifo(case.path("pipe"))
            case.expected("pipe")
            data = rng.choice([case.lab.files["t.csv"], case.lab.files["t.npy"], b""])

            def feed():
                try:
                    case.path("pipe").write_bytes(data)
                except OSError:
                    pass

            threading.Thread(target=feed, daemon=True).start()
            use(case, "pipe")
            # Unblocks the writer of a run that never opened the pipe.
            os.close(os.open(case.path("pipe"), os.O_RDWR | os.O_NONBLOCK))
        case 1:
            file = rng.choice(["/dev/null", "/dev/full", "/proc/self/mem", "/proc/self/maps", "/", ".", "missing.csv", "", "/dev/stdin"])
            use(case, file)
        case _:
            case.put("t.csv", case.lab.files["t.csv"])
            flag = rng.choice(["--config", "--labels", "--column-names", "--resume"])
            file = rng.choice(["/dev/null", "/dev/full", "/proc/self/mem", ".", "missing", "", "/dev/zero"])
            if flag == "--resume":
                case.run("fit", "t.csv", *TINY, "--resume", "--checkpoint", file, "-o", "m.pervade", outputs=["m.pervade"],
                         keeps=["m.pervade.checkpoint"])
            else:
                case.run("fit", "t.csv", flag, file, *TINY, "-o", "m.pervade", outputs=["m.pervade"], keeps=["m.pervade.checkpoint"])


@family(2)
def configs(case):
    """Settings files: wrong types, values out of range, NaN, nesting, duplicate and unknown keys, bytes that are not text."""
    rng = case.rng
    keys = ["learning_rate", "epochs", "hidden", "clusters", "recipe", "dropout", "epsilon", "batch", "latents", "seed", "decay", "nope",
            "noise_variance", "samples", "components", "likelihood", "prepare", "starts", "restarts", "neighbours", "learning-rate"]
    values = ["nan", "inf", "-inf", "1e39", "-1", "0", "1e400", "4294967296", "18446744073709551616", '""', '"auto"', "true", "[]",
              "[8]", "[0]", "[-1]", "{}", "1979-05-27", '"\\u001b[31m"', "[[[[[]]]]]", "3.5", "2", "0.5", "1"]
    lines = [f"{rng.choice(keys)} = {rng.choice(values)}" for _ in range(rng.choice([1, 1, 2, 4]))]
    text = "\n".join(lines)
    match rng.randrange(8):
        case 0:
            data = damage.spoil(rng, text.encode())
        case 1:
            data = b"a = " + b"[" * rng.choice([100, 20000])
        case 2:
            data = b"\xff\xfe" + text.encode("utf-16-le")
        case 3:
            data = ("[" + rng.choice(["fit", "a.b.c", "settings"]) + "]\n" + text).encode()
        case _:
            data = text.encode()
    case.put("c.toml", data)
    case.put("t.csv", case.lab.files["t.csv"])
    words = ["--json"] if rng.random() < 0.3 else []
    # Billions of restarts are valid, and take long.
    case.run("fit", "t.csv", "--config", "c.toml", *words, *CPU, "-k", "3", "--hidden", "8", "--epochs", "1", "--pretrain-epochs", "1", "-o",
             "m.pervade", outputs=["m.pervade"], keeps=["m.pervade.checkpoint"], after=[(1.0, signal.SIGINT)] if "4294967296" in text else [])
    if any(line.split(" = ")[1] in ("nan", "inf", "-inf") for line in lines) and case.path("m.pervade").exists():
        case.fail("lost value", f"a setting of nan or inf was accepted silently: {text!r}")


@family(2)
def columns(case):
    """A table whose columns are in another order, or have other names, is matched by name or refused."""
    rng, lab = case.rng, case.lab
    order = rng.sample(range(3), 3)
    renamed = case.index % 3 == 0
    names = [("x" if renamed and i == order[0] else "") + "abc"[i] for i in order]
    between = rng.choice([",", "\t"])
    rows = [[row[i] for i in order] for row in lab.table]
    file = "t.csv" if between == "," else "t.tsv"
    case.put(file, csv(rows, between.join(names), between))
    case.put("m.pervade", lab.named)
    command = rng.choice(["assign", "embed", "score", "reconstruct", "evaluate"])
    case.put("y.txt", lab.label_files["y.txt"])
    words = ["--labels", "y.txt"] if command == "evaluate" else []
    ran = case.run(command, "m.pervade", file, *words, *CPU)
    if renamed:
        if ran.status != 2:
            case.fail("columns", f"columns {names} were used as a, b, c (exit {ran.status})")
    elif ran.status != 0:
        case.fail("columns", f"columns in the order {names} were refused: {ran.stderr[-200:]!r}")
    elif command == "assign" and ran.stdout != lab.assigned:
        case.fail("columns", f"columns in the order {names} were assigned by position")


@family(1)
def extreme_rows(case):
    """Rows at the edge of single precision: the result is finite, or there is an error or a note."""
    rng = case.rng
    words = ["3e38", "-3e38", "3.4028234e38", "1e-45", "-0", "1e30", "1", "1e20"]
    rows = [",".join(rng.choice(words) for _ in range(3)) for _ in range(rng.choice([1, 2, 60]))]
    case.put("t.csv", ("a,b,c\n" + "\n".join(rows) + "\n").encode())
    case.put("m.pervade", case.lab.named)
    command = rng.choice(["assign", "embed", "reconstruct", "score"])
    ran = case.run(command, "m.pervade", "t.csv", *(["--probabilities"] if command == "assign" else []), *CPU)
    # The ELBO of a row of extreme size is rightly minus infinity.
    shown = ran.stdout.lower().replace(b"-inf", b"") if command == "score" else ran.stdout.lower()
    if ran.status == 0 and (b"nan" in shown or b"inf" in shown):
        if not (b"warning" in ran.stderr or b"finite" in ran.stderr or b"NaN" in ran.stderr):
            case.fail("silent NaN", f"`{command}` silently gives NaN or infinity: {ran.stdout[-80:]!r}")
