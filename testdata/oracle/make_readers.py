"""Writes small data files with NumPy, SciPy, PyArrow and Pillow, and what a reader must find in them.

    pip install numpy scipy pyarrow pillow
    python testdata/oracle/make_readers.py

The files go to testdata/readers; `cases.json` lists, for each, the options and the expected rows,
type, labels, column names and picture shape. `crates/pervade/tests/all/readers.rs` reads them.
"""

import gzip
import io
import json
import shutil
import struct
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import scipy.io
import scipy.sparse as sp
from PIL import Image

OUT = Path(__file__).resolve().parent.parent / "readers"
CASES = []

rng = np.random.default_rng(7)
REAL = np.round(rng.normal(size=(6, 4)), 3)
BYTES = rng.integers(0, 256, size=(6, 4), dtype=np.uint8)
LABELS = np.array([3, 1, 3, 7, 1, 7])
WORDS = np.array(["cat", "ant", "cat", "eel", "ant", "eel"])
IDS = [1, 0, 1, 2, 0, 2]
IMAGES = rng.integers(0, 256, size=(6, 3, 2), dtype=np.uint8)


def case(file, rows, kind, *, labels=None, array=None, names=None, label_names=None, image=None):
    """One file and what it holds; `rows` are compared as single precision."""
    # The shortest text that single precision reads back the same keeps the list small.
    rows = [[float(str(np.float32(x))) for x in row] for row in rows]
    found = {
        "file": file,
        "labels": labels,
        "array": array,
        "kind": kind,
        "names": names,
        "label_ids": IDS if labels else None,
        "label_names": label_names or (["1", "3", "7"] if labels else None),
        "image": image,
        "rows": rows,
    }
    CASES.append({key: value for key, value in found.items() if value is not None})


def path(name):
    file = OUT / name
    file.parent.mkdir(parents=True, exist_ok=True)
    return file


def pack(name, data):
    """A .gz file without the time in it: the script writes the same bytes every day."""
    path(name).write_bytes(gzip.compress(data, mtime=0))


def npy():
    for name, order in [("c", "C"), ("fortran", "F")]:
        np.save(path(f"f32_{name}.npy"), np.asarray(REAL, dtype="<f4", order=order))
        case(f"f32_{name}.npy", REAL.astype("f4"), "f32")
    kept = {"|u1": "u8", "<f2": "f16", ">f2": "f16", ">f4": "f32", "<f8": "f64", ">f8": "f64"}
    for code, kind in kept.items():
        rows = BYTES if kind == "u8" else REAL.astype(code)
        name = code.replace("<", "le_").replace(">", "be_").replace("|", "")
        np.save(path(f"{name}.npy"), rows.astype(code))
        case(f"{name}.npy", rows, kind)
    for code in ["|i1", "<i2", ">i2", "<u2", "<i4", ">i4", "<u4", "<i8", ">u8"]:
        rows = (BYTES.astype(int) // 2 - (60 if "i" in code else 0)).astype(code)
        name = code.replace("<", "le_").replace(">", "be_").replace("|", "")
        np.save(path(f"{name}.npy"), rows)
        case(f"{name}.npy", rows, "f32")
    big = np.array([[2**24 + 1, 5], [7, -9]])
    np.save(path("too_big_for_f32.npy"), big)
    case("too_big_for_f32.npy", big, "f64")
    np.save(path("bool.npy"), BYTES > 99)
    case("bool.npy", BYTES > 99, "u8")
    np.save(path("images.npy"), IMAGES)
    case("images.npy", IMAGES.reshape(6, 6), "u8", image=[3, 2, 1])
    colour = rng.integers(0, 256, size=(2, 3, 2, 3), dtype=np.uint8)
    np.save(path("colour.npy"), colour)
    case("colour.npy", colour.reshape(2, 18), "u8", image=[3, 2, 3])
    np.save(path("channels_first.npy"), colour.transpose(0, 3, 1, 2))
    case("channels_first.npy", colour.reshape(2, 18), "u8", image=[3, 2, 3])
    buffer = io.BytesIO()
    np.save(buffer, REAL)
    pack("packed.npy.gz", buffer.getvalue())
    case("packed.npy.gz", REAL, "f64")
    np.save(path("labels_i64.npy"), LABELS)
    np.save(path("labels_words.npy"), WORDS)
    case("f32_c.npy", REAL.astype("f4"), "f32", labels="FOLDER/labels_i64.npy")
    case("f32_c.npy", REAL.astype("f4"), "f32", labels="FOLDER/labels_words.npy", label_names=["ant", "cat", "eel"])


def npz():
    np.savez(path("stored.npz"), x=REAL.astype("f4"), y=LABELS, other=BYTES)
    np.savez_compressed(path("deflated.npz"), X=REAL, y=WORDS)
    np.savez_compressed(path("only_one.npz"), things=BYTES, y=LABELS)
    case("stored.npz", REAL.astype("f4"), "f32", labels="y")
    case("stored.npz", BYTES, "u8", array="other")
    case("deflated.npz", REAL, "f64", labels="y", label_names=["ant", "cat", "eel"])
    case("only_one.npz", BYTES, "u8", labels="y")
    case("f32_c.npy", REAL.astype("f4"), "f32", labels="FOLDER/stored.npz")


SPARSE = np.where(np.abs(REAL) > 0.6, REAL, 0)
SPARSE[4] = 0


def sparse():
    for name, matrix in [("csr", sp.csr_matrix(SPARSE.astype("f4"))), ("csc", sp.csc_matrix(SPARSE))]:
        sp.save_npz(path(f"{name}.npz"), matrix)
        case(f"{name}.npz", SPARSE, "csr")
    messy = sp.csr_matrix(
        (np.array([1.0, 2.0, 4.0, 0.5, 8.0]), np.array([3, 0, 3, 1, 2]), np.array([0, 3, 3, 5])), shape=(3, 4)
    )
    sp.save_npz(path("unsorted_csr.npz"), messy, compressed=False)
    case("unsorted_csr.npz", messy.toarray(), "csr")
    lines = [
        f"{label} " + " ".join(f"{j + 1}:{row[j]:.3f}" for j in np.nonzero(row)[0]) for label, row in zip(LABELS, SPARSE)
    ]
    path("one.svm").write_text("# a comment\n" + "\n".join(lines) + "\n")
    case("one.svm", SPARSE, "csr", labels="y")
    zero = [f"{label} qid:1 " + " ".join(f"{j}:{x}" for j, x in enumerate(row)) for label, row in zip(WORDS, BYTES)]
    path("zero.libsvm").write_text("\n".join(zero))
    case("zero.libsvm", BYTES, "csr", labels="y", label_names=["ant", "cat", "eel"])


def text():
    names = ["length", "width, outer", "a \"b\"", "d"]
    header = 'length,"width, outer","a ""b""",d'
    plain = "\n".join(",".join(str(x) for x in row) for row in REAL) + "\n"
    path("header.csv").write_text(header + "\n" + plain)
    path("plain.csv").write_text(plain)
    path("windows.csv").write_bytes(b"\xef\xbb\xbf" + (header + "\n" + plain).replace("\n", "\r\n").encode())
    pack("plain.csv.gz", plain.encode())
    np.savetxt(path("spaces.txt"), REAL, fmt="%10.3f")
    np.savetxt(path("tabs.tsv"), REAL, fmt="%.3f", delimiter="\t")
    np.savetxt(path("semicolons.csv"), REAL, fmt="%.3f", delimiter=";", header="a;b;c;d", comments="")
    case("header.csv", REAL, "f32", names=names)
    case("windows.csv", REAL, "f32", names=names)
    for name in ["plain.csv", "plain.csv.gz", "spaces.txt", "tabs.tsv"]:
        case(name, REAL, "f32")
    case("semicolons.csv", REAL, "f32", names=["a", "b", "c", "d"])
    words = "\n".join(",".join(str(x) for x in row) + f",{word}" for row, word in zip(REAL, WORDS))
    path("words_last.csv").write_text(words)
    path("words_named.csv").write_text("a,b,c,d,animal\n" + words)
    for file, labels, given in [
        ("words_last.csv", "column:last", None),
        ("words_named.csv", "column:last", ["a", "b", "c", "d"]),
        ("words_named.csv", "column:animal", ["a", "b", "c", "d"]),
    ]:
        case(file, REAL, "f32", labels=labels, names=given, label_names=["ant", "cat", "eel"])
    path("labels.txt").write_text("label\n" + "\n".join(str(x) for x in LABELS) + "\n")
    case("plain.csv", REAL, "f32", labels="FOLDER/labels.txt")


def parquet():
    def write(name, columns, **options):
        pq.write_table(pa.table(columns), path(name), **options)

    named = {f"c{j}": REAL[:, j] for j in range(4)}
    write("doubles.parquet", named, compression="snappy")
    case("doubles.parquet", REAL, "f64", names=list(named))
    mixed = {"a": pa.array(REAL[:, 0], pa.float32()), "b": pa.array(LABELS.astype("i2")), "animal": WORDS}
    write("mixed.parquet", mixed, compression="zstd")
    case(
        "mixed.parquet",
        np.stack([REAL[:, 0].astype("f4"), LABELS], axis=1),
        "f32",
        labels="column:animal",
        names=["a", "b"],
        label_names=["ant", "cat", "eel"],
    )
    write("whole.parquet", {"a": LABELS, "b": LABELS * 2}, compression="gzip")
    case("whole.parquet", np.stack([LABELS, LABELS * 2], axis=1), "f32", names=["a", "b"])
    bytes_list = pa.array([row.tolist() for row in BYTES], pa.list_(pa.uint8(), 4))
    write("lists.parquet", {"pixels": bytes_list}, compression="none", row_group_size=4)
    case("lists.parquet", BYTES, "u8", names=[f"pixels_{j}" for j in range(4)])
    free_list = pa.array([row.tolist() for row in REAL], pa.list_(pa.float32()))
    write("free_lists.parquet", {"v": free_list, "y": LABELS}, compression="brotli")
    case(
        "free_lists.parquet", REAL.astype("f4"), "f32", labels="column:y", names=[f"v_{j}" for j in range(4)]
    )
    write("labels.parquet", {"y": LABELS}, compression="lz4")
    case("plain.csv", REAL, "f32", labels="FOLDER/labels.parquet")
    write("null.parquet", {"a": pa.array([1.0, None, 3.0]), "b": [1.0, 2.0, 3.0]})


def idx(name, array, code):
    head = struct.pack(">BBBB", 0, 0, code, array.ndim) + struct.pack(f">{array.ndim}I", *array.shape)
    body = head + array.astype(array.dtype.newbyteorder(">")).tobytes()
    if name.endswith(".gz"):
        pack(name, body)
    else:
        path(name).write_bytes(body)


def idx_files():
    idx("bytes.idx", IMAGES, 8)
    case("bytes.idx", IMAGES.reshape(6, 6), "u8", image=[3, 2, 1])
    for name, code, dtype, kind in [("i16", 11, "i2", "f32"), ("f32", 13, "f4", "f32"), ("f64", 14, "f8", "f64")]:
        rows = (REAL * 10).astype(dtype)
        idx(f"{name}.idx.gz", rows, code)
        case(f"{name}.idx.gz", rows, kind)
    idx("labels.idx", LABELS.astype("u1"), 8)
    case("plain.csv", REAL, "f32", labels="FOLDER/labels.idx")
    idx("mnist/train-images-idx3-ubyte.gz", IMAGES[:4], 8)
    idx("mnist/train-labels-idx1-ubyte", LABELS[:4].astype("u1"), 8)
    idx("mnist/t10k-images-idx3-ubyte", IMAGES[4:], 8)
    idx("mnist/t10k-labels-idx1-ubyte.gz", LABELS[4:].astype("u1"), 8)
    case("mnist", IMAGES.reshape(6, 6), "u8", labels="y", image=[3, 2, 1])
    idx("pair/pictures", IMAGES, 8)
    idx("pair/classes", LABELS.astype("i4"), 12)
    case("pair", IMAGES.reshape(6, 6), "u8", labels="y", image=[3, 2, 1])


def mat_big_endian(name, rows):
    """A v5 file as a big-endian machine writes it; SciPy writes the other order only."""

    def element(kind, data):
        return struct.pack(">II", kind, len(data)) + data + b"\0" * (-len(data) % 8)

    matrix = element(6, struct.pack(">II", 6, 0)) + element(5, struct.pack(">ii", *rows.shape))
    matrix += element(1, b"x") + element(9, rows.T.astype(">f8").tobytes())
    head = b"MATLAB 5.0 MAT-file, big endian".ljust(124) + struct.pack(">H", 0x0100) + b"MI"
    path(name).write_bytes(head + element(14, matrix))


def save_mat(name, content, **options):
    scipy.io.savemat(path(name), content, **options)
    data = path(name).read_bytes()
    path(name).write_bytes(b"MATLAB 5.0 MAT-file, written by SciPy".ljust(116) + data[116:])


def mat():
    for name, packed in [("plain", False), ("packed", True)]:
        content = {"x": REAL, "y": LABELS.reshape(-1, 1), "about": "text is passed over", "bytes": BYTES}
        save_mat(f"{name}.mat", content, do_compression=packed)
        case(f"{name}.mat", REAL, "f64", labels="y")
        case(f"{name}.mat", BYTES, "u8", array="bytes")
    save_mat("sparse.mat", {"fea": sp.csc_matrix(SPARSE), "gnd": LABELS}, do_compression=True)
    case("sparse.mat", SPARSE, "csr", labels="gnd")
    save_mat("images.mat", {"X": IMAGES})
    case("images.mat", IMAGES.reshape(6, 6), "u8", image=[3, 2, 1])
    mat_big_endian("big_endian.mat", REAL)
    case("big_endian.mat", REAL, "f64")
    case("plain.csv", REAL, "f32", labels="FOLDER/plain.mat")


def pictures():
    for image, word, ending, i in zip(IMAGES, WORDS, ["png", "bmp", "pgm", "png", "bmp", "png"], range(6)):
        Image.fromarray(image).save(path(f"grey/{word}/{i}.{ending}"))
    order = [1, 4, 0, 2, 3, 5]
    case("grey", IMAGES.reshape(6, 6)[order], "u8", labels="folder", image=[3, 2, 1], label_names=["ant", "cat", "eel"])
    CASES[-1]["label_ids"] = [0, 0, 1, 1, 2, 2]
    colour = rng.integers(0, 256, size=(2, 3, 4, 3), dtype=np.uint8)
    Image.fromarray(IMAGES[0].repeat(2, axis=1)).save(path("colour/a.png"))
    for i, image in enumerate(colour):
        Image.fromarray(image).save(path(f"colour/b{i}.png"))
    grey = np.repeat(IMAGES[0].repeat(2, axis=1)[:, :, None], 3, axis=2)
    case("colour", np.concatenate([grey[None], colour]).reshape(3, 36), "u8", image=[3, 4, 3])
    flat = np.full((8, 8), 90, dtype=np.uint8)
    Image.fromarray(flat).save(path("photo/flat.jpg"), quality=95)
    with Image.open(path("photo/flat.jpg")) as file:
        case("photo", np.asarray(file).reshape(1, 64), "u8", image=[8, 8, 1])


if __name__ == "__main__":
    shutil.rmtree(OUT, ignore_errors=True)
    for make in [npy, npz, sparse, text, parquet, idx_files, mat, pictures]:
        make()
    lines = ",\n".join(json.dumps(c) for c in CASES)
    path("cases.json").write_text(f"[\n{lines}\n]\n")
