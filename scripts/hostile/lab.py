"""Small valid files of every format, and files that the command itself writes once: models, a checkpoint, a Parquet file."""

import gzip
import io
import os
import random
import shutil
import signal
import struct
import subprocess
import time
import zipfile
import zlib
from pathlib import Path

ROWS, COLUMNS = 60, 3
CPU = ("--device", "cpu", "--threads", "1")
NET = ("--hidden", "8", "--latents", "2")
TINY = ("-k", "3", *NET, "--pretrain-epochs", "1", "--epochs", "1", *CPU)
# A run with enough epochs to be interrupted, about a fifth of a second.
LONG = ("-k", "3", *NET, "--pretrain-epochs", "12", "--epochs", "25", "--checkpoint-seconds", "0", *CPU)
CHECKPOINT = "checkpoint.safetensors"


class Lab:
    """Everything that cases share. Bytes, not paths: each case writes its own copies."""

    def __init__(self, binary, folder, testdata):
        self.folder = Path(folder)
        self.binary = self.folder / "pervade"
        shutil.copy(binary, self.binary)
        self.binary.chmod(0o755)
        self.env = {"PATH": os.environ.get("PATH", ""), "HOME": str(self.folder), "XDG_CACHE_HOME": str(self.folder / "cache")}
        self.root = os.geteuid() == 0
        self.mounts = self.root and can_mount(self.folder)
        rng = random.Random(7)
        self.table = [[rng.gauss(4 * (i % 3 == j), 1) for j in range(COLUMNS)] for i in range(ROWS)]
        self.long_table = [[rng.gauss(4 * (i % 3 == j), 1) for j in range(COLUMNS)] for i in range(400)]
        self.labels = [i % 3 for i in range(ROWS)]
        self.files = tables(self.table, self.labels)
        self.label_files = label_files(self.labels)
        self.readers = {p.name: p.read_bytes() for p in sorted((testdata / "readers").iterdir()) if p.is_file()}
        self.folders = folders(testdata)
        self.large_png = png(9000, 9000)
        self.make(TINY)

    def run(self, *args, cwd):
        done = subprocess.run([self.binary, *args], cwd=cwd, env=self.env, capture_output=True, timeout=300)
        if done.returncode != 0:
            raise SystemExit(f"attack: cannot prepare: {args}: {done.stderr.decode(errors='replace')}")
        return done

    def make(self, tiny):
        made = self.folder / "made"
        made.mkdir()
        (made / "t.csv").write_bytes(self.files["t.csv"])
        (made / "t.npy").write_bytes(self.files["t.npy"])
        (made / "long.npy").write_bytes(npy(self.long_table))
        self.long_npy = npy(self.long_table)
        for name, data in self.folders["pictures"].items():
            (made / "pictures" / name).parent.mkdir(parents=True, exist_ok=True)
            (made / "pictures" / name).write_bytes(data)
        self.run("fit", "t.csv", *tiny, "-o", "named.pervade", cwd=made)
        self.run("fit", "t.npy", *tiny, "-o", "plain.pervade", cwd=made)
        self.run("fit", "pictures", *tiny, "-o", "picture.pervade", cwd=made)
        self.run("reconstruct", "named.pervade", "t.csv", *CPU, "-o", "t.parquet", cwd=made)
        self.run("fit", "long.npy", *LONG, "-o", "long.pervade", cwd=made)
        self.files["t.parquet"] = (made / "t.parquet").read_bytes()
        self.named, self.plain, self.picture, self.long_model = (
            (made / f"{name}.pervade").read_bytes() for name in ("named", "plain", "picture", "long"))
        self.assigned = self.run("assign", "named.pervade", "t.csv", *CPU, cwd=made).stdout
        self.checkpoints = [self.killed(made, seconds) for seconds in (0.02, 0.06, 0.12)]

    def killed(self, made, seconds):
        """The checkpoint of a run that was killed some time after its first checkpoint."""
        for _ in range(20):
            folder = made / "killed.pervade.checkpoint"
            shutil.rmtree(folder, ignore_errors=True)
            process = subprocess.Popen([self.binary, "fit", "long.npy", *LONG, "-o", "killed.pervade"], cwd=made, env=self.env,
                                       stderr=subprocess.DEVNULL)
            while process.poll() is None and not (folder / CHECKPOINT).exists():
                time.sleep(0.002)
            time.sleep(seconds)
            process.send_signal(signal.SIGKILL)
            if process.wait() == -signal.SIGKILL and (folder / CHECKPOINT).exists():
                return (folder / CHECKPOINT).read_bytes()
            seconds /= 2
        raise SystemExit("attack: cannot prepare: no checkpoint of a killed run")


def can_mount(folder):
    mount_point = folder / "mount"
    mount_point.mkdir()
    tried = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64k", "none", mount_point], capture_output=True)
    if tried.returncode == 0:
        subprocess.run(["umount", mount_point], capture_output=True)
    return tried.returncode == 0


# Writers of small files.


def npy_header(text, major=1):
    text += " " * (-(10 + len(text) + 1) % 64) + "\n"
    return b"\x93NUMPY" + bytes([major, 0]) + struct.pack("<H", len(text)) + text.encode("latin-1", "replace")


def npy(rows, kind="<f4"):
    shape = f"({len(rows)}, {len(rows[0])})" if isinstance(rows[0], list) else f"({len(rows)},)"
    flat = [x for row in rows for x in row] if isinstance(rows[0], list) else rows
    code = {"<f4": "f", "<f8": "d", "<i8": "q", "|u1": "B", "|i1": "b", "<i4": "i"}[kind]
    if code not in "fd":
        flat = [int(x) for x in flat]
    head = npy_header("{'descr': '%s', 'fortran_order': False, 'shape': %s, }" % (kind, shape))
    return head + struct.pack(f"<{len(flat)}{code}", *flat)


def npz(arrays, compression=zipfile.ZIP_DEFLATED):
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", compression) as z:
        for name, data in arrays.items():
            z.writestr(zipfile.ZipInfo(name + ".npy"), data, compression)
    return out.getvalue()


def csr(rows):
    entries = [[(j, x) for j, x in enumerate(row) if abs(x) > 0.5] for row in rows]
    indptr = [0]
    for row in entries:
        indptr.append(indptr[-1] + len(row))
    word = npy_header("{'descr': '|S3', 'fortran_order': False, 'shape': (), }") + b"csr"
    return npz({"data": npy([x for row in entries for _, x in row]), "indices": npy([j for row in entries for j, _ in row], "<i4"),
                "indptr": npy(indptr, "<i4"), "shape": npy([len(rows), len(rows[0])], "<i8"), "format": word})


def csv(rows, names="a,b,c", between=",", labels=None):
    lines = [names] if names else []
    for i, row in enumerate(rows):
        lines.append(between.join([f"{x:.5g}" for x in row] + ([f"word{labels[i]}"] if labels else [])))
    return ("\n".join(lines) + "\n").encode()


def idx(values, shape, kind=0x08):
    code = {0x08: "B", 0x0D: "f"}[kind]
    return struct.pack(">BBBB", 0, 0, kind, len(shape)) + struct.pack(f">{len(shape)}I", *shape) + struct.pack(
        f">{len(values)}{code}", *values)


def svm(rows, labels):
    line = lambda row, label: f"{label} " + " ".join(f"{j + 1}:{x:.4g}" for j, x in enumerate(row))
    return ("\n".join(line(row, label) for row, label in zip(rows, labels)) + "\n").encode()


def mat(rows, packed=False, name=b"x"):
    def element(kind, data):
        return struct.pack("<II", kind, len(data)) + data + b"\0" * (-len(data) % 8)

    columns = [row[j] for j in range(len(rows[0])) for row in rows]
    body = (element(6, struct.pack("<II", 6, 0)) + element(5, struct.pack("<ii", len(rows), len(rows[0]))) + element(1, name)
            + element(9, struct.pack(f"<{len(columns)}d", *columns)))
    whole = element(14, body)
    if packed:
        squeezed = zlib.compress(whole)
        whole = struct.pack("<II", 15, len(squeezed)) + squeezed
    return b"MATLAB 5.0 MAT-file".ljust(116) + b"\0" * 8 + struct.pack("<H", 0x0100) + b"IM" + whole


def png(width, height, pixels=None, colour=0):
    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    wide = width * (3 if colour == 2 else 1)
    if pixels is None:
        packer = zlib.compressobj(6)
        line = bytes(1 + wide)
        body = b"".join(packer.compress(line) for _ in range(height)) + packer.flush()
    else:
        body = zlib.compress(b"".join(b"\0" + pixels[i * wide:(i + 1) * wide] for i in range(height)))
    head = struct.pack(">IIBBBBB", width, height, 8, colour, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", body) + chunk(b"IEND", b"")


def tables(table, labels):
    """One file per format, all of the same 60 x 3 numbers (except for formats that only have bytes)."""
    bytes_ = [min(255, max(0, int(40 * x + 60))) for row in table for x in row]
    plain = csv(table)
    return {
        "t.npy": npy(table), "double.npy": npy(table, "<f8"), "byte.npy": npy([[int(x) for x in row] for row in table], "|i1"),
        "t.npz": npz({"x": npy(table), "y": npy(labels, "<i8")}), "stored.npz": npz({"x": npy(table)}, zipfile.ZIP_STORED),
        "csr.npz": csr(table), "t.csv": plain, "bare.csv": csv(table, names=None), "t.tsv": csv(table, "a\tb\tc", "\t"),
        "words.csv": csv(table, "a,b,c,kind", labels=labels), "t.csv.gz": gzip.compress(plain, mtime=0),
        "t.npy.gz": gzip.compress(npy(table), mtime=0), "t.idx": idx(bytes_, (ROWS, COLUMNS)),
        "real.idx": idx([x for row in table for x in row], (ROWS, COLUMNS), 0x0D), "t.svm": svm(table, labels),
        "t.mat": mat(table), "packed.mat": mat(table, packed=True),
    }


def label_files(labels):
    text = "".join(f"{x}\n" for x in labels).encode()
    return {"y.txt": text, "y.csv": b"label\n" + text, "y.npy": npy(labels, "<i8"), "y.idx": idx(labels, (len(labels),)),
            "y.npz": npz({"y": npy(labels, "<i8")}), "y.txt.gz": gzip.compress(text, mtime=0),
            "words.txt": "".join(f"class {x}\n" for x in labels).encode()}


def folders(testdata):
    """Folders that are data sets: pictures, MNIST's four files, HAR, RCV1 as tokens and as vectors, STL-10."""
    def read(path):
        return {str(p.relative_to(path)): p.read_bytes() for p in sorted(path.rglob("*")) if p.is_file()}

    rng = random.Random(3)
    pictures = {f"{kind}/{i}.png": png(4, 4, bytes(rng.randrange(100) + 80 * (kind == "b") for _ in range(16)))
                for kind in "ab" for i in range(12)}
    stl = {"train_X.bin": bytes([7]) * 27648, "train_y.bin": b"\1", "test_X.bin": bytes([9]) * 27648, "test_y.bin": b"\x0a",
           "class_names.txt": b"a\nb\nc\nd\ne\nf\ng\nh\ni\nj\n"}
    original = testdata / "originals"
    return {"pictures": pictures, "grey": read(testdata / "readers/grey"), "colour": read(testdata / "readers/colour"),
            "photo": read(testdata / "readers/photo"), "mnist": read(testdata / "readers/mnist"), "har": read(original / "har"),
            "tokens": read(original / "tokens"), "vectors": read(original / "vectors"), "stl10": stl}
