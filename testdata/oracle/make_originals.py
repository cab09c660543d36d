"""Writes small folders in the original formats of the paper's data sets, and what a reader must find.

    pip install numpy scipy scikit-learn
    python testdata/oracle/make_originals.py

The files go to testdata/originals; `crates/pervade/tests/all/originals.rs` reads them. The words are made
up and the numbers random: nothing of the real data is here. Expected rows of RCV1-v2 come from
scikit-learn's CountVectorizer and TfidfTransformer, which DEC's and VaDE's code used. STL-10's pictures
are too large to keep; the test writes them by the same formula, and `stl10.json` says what NumPy finds.
"""

import gzip
import json
import shutil
import zlib
from pathlib import Path

import numpy as np
import scipy.io
import scipy.sparse as sp
from sklearn.feature_extraction.text import CountVectorizer, TfidfTransformer
from sklearn.preprocessing import normalize

OUT = Path(__file__).resolve().parent.parent / "originals"
PARTS = ["test_pt0", "test_pt1", "test_pt2", "test_pt3", "train"]
ROOTS = ["CCAT", "ECAT", "GCAT", "MCAT"]

rng = np.random.default_rng(11)


def write(name, data):
    """A file; packed, without the time in it, where the name ends in .gz."""
    file = OUT / name
    file.parent.mkdir(parents=True, exist_ok=True)
    data = data.encode() if isinstance(data, str) else data
    file.write_bytes(gzip.compress(data, mtime=0) if name.endswith(".gz") else data)


def collection():
    """Numbers of documents, their topics, and which of them have exactly one root."""
    ids = np.sort(rng.choice(np.arange(2286, 9000), size=70, replace=False))
    topics = []
    for i in ids:
        kind = rng.integers(0, 10)
        roots = list(rng.choice(ROOTS, size=0 if kind == 0 else 2 if kind == 1 else 1, replace=False))
        topics.append(roots + [f"{root[0]}{rng.integers(10, 99)}" for root in roots])
    kept = [sum(t in ROOTS for t in ts) == 1 for ts in topics]
    return ids, topics, kept


def qrels(ids, topics):
    return "".join(f"{topic} {i} 1\n" for i, ts in zip(ids, topics) for topic in ts)


def save_expected(folder, rows, names, roots):
    rows = sp.csr_matrix(rows, dtype=np.float32)
    rows.sort_indices()
    with open(OUT / folder / "expected.npz", "wb") as file:
        sp.save_npz(file, rows)
    write(f"{folder}/expected.json", json.dumps({"names": names, "roots": roots}) + "\n")


def tokens():
    """2,000 words that occur at least twice, 100 that occur once, and what CountVectorizer passes over."""
    ids, topics, kept = collection()
    letters = np.array(list("abcdefghijklmnopqrstuvwxyz0123456789"))
    vocabulary = sorted({"".join(rng.choice(letters, size=rng.integers(2, 5))) for _ in range(2600)})
    rng.shuffle(vocabulary)
    often, once, elsewhere = vocabulary[:2000], vocabulary[2000:2100], vocabulary[2100:2120]
    dealt = [[] for _ in ids]
    of_one_root = np.flatnonzero(kept)
    # One document stays empty and one has rare words alone: rows of zeros.
    empty, rare = of_one_root[3], of_one_root[9]
    takers = [d for d in of_one_root if d not in (empty, rare)]
    for word in often:
        for d in rng.choice(takers, size=2 + rng.geometric(0.5)):
            dealt[d] += [word] * int(rng.integers(1, 4))
    for i, word in enumerate(once):
        dealt[rare if i < 5 else rng.choice(takers)].append(word)
    for d in np.flatnonzero(~np.array(kept)):
        dealt[d] += elsewhere * 9  # would be among the most frequent, if these documents counted
    for d in takers[::5]:
        dealt[d] += ["x", "7", f"{often[0].upper()}", f"{often[1]}-{often[2]}", f"({often[3]})"]
    texts = []
    for words in dealt:
        rng.shuffle(words)
        texts.append("\n".join(" ".join(words[at : at + 12]) for at in range(0, len(words), 12)))
    bounds = np.linspace(0, len(ids), 6).astype(int)
    for part, name in enumerate(PARTS):
        documents = range(bounds[part], bounds[part + 1])
        ending = ".dat.gz" if part != 1 else ".dat"
        data = "".join(f".I {ids[d]}\n.W\n{texts[d]}{chr(10) if texts[d] else ''}\n" for d in documents)
        write(f"tokens/lyrl2004_tokens_{name}{ending}", data)
    write("tokens/rcv1-v2.topics.qrels.gz", qrels(ids, topics))
    counter = CountVectorizer(dtype=np.float64, max_features=2000)
    counts = counter.fit_transform([texts[d] for d in of_one_root])
    every = CountVectorizer().fit_transform([texts[d] for d in of_one_root]).sum(axis=0)
    every = np.sort(np.asarray(every).ravel())[::-1]
    assert every[1999] > every[2000], "a tie at the limit would leave the choice to the sorting"
    rows = TfidfTransformer(norm="l2", sublinear_tf=True).fit_transform(counts) * np.sqrt(counts.shape[1])
    roots = [next(t for t in topics[d] if t in ROOTS) for d in of_one_root]
    save_expected("tokens", rows, counter.get_feature_names_out().tolist(), roots)


def vectors():
    """Fewer terms than the limit: all are kept, and rows are brought to length sqrt(D)."""
    ids, topics, kept = collection()
    dense = np.where(rng.random((len(ids), 120)) < 0.15, rng.random((len(ids), 120)) + 0.01, 0.0)
    dense[:, 40:80] *= ~np.array(kept)[:, None] * (rng.random((len(ids), 40)) < 0.5)
    terms = np.sort(rng.choice(np.arange(1, 47237), size=120, replace=False))
    bounds = np.linspace(0, len(ids), 6).astype(int)
    for part, name in enumerate(PARTS):
        lines = [
            f"{ids[d]}  " + " ".join(f"{terms[j]}:{dense[d, j]:.17g}" for j in np.flatnonzero(dense[d]))
            for d in range(bounds[part], bounds[part + 1])
        ]
        write(f"vectors/lyrl2004_vectors_{name}.dat" + (".gz" if part == 4 else ""), "\n".join(lines) + "\n")
    write("vectors/rcv1-v2.topics.qrels", qrels(ids, topics))
    of_one_root = np.flatnonzero(kept)
    used = np.flatnonzero(dense[of_one_root].any(axis=0))
    rows = normalize(dense[of_one_root][:, used]) * np.sqrt(len(used))
    roots = [next(t for t in topics[d] if t in ROOTS) for d in of_one_root]
    save_expected("vectors", rows, [str(t) for t in terms[used]], roots)


def har():
    """Numbers as the archive writes them: wide columns and exponents of three digits."""
    train, test = rng.uniform(-1, 1, size=(5, 4)), rng.uniform(-1, 1, size=(3, 4))
    three_digits = lambda x: f"{x:16.7e}".replace("e-", "e-0").replace("e+", "e+0")
    names = ["tBodyAcc-mean()-X", "fBodyAcc-bandsEnergy()-1,8", "angle(X,gravityMean)", "fBodyAcc-bandsEnergy()-1,8"]
    activities = ["WALKING", "WALKING_UPSTAIRS", "SITTING"]
    labels = [[1, 3, 3, 1, 2], [2, 2, 1]]
    for part, rows, ys in [("train", train, labels[0]), ("test", test, labels[1])]:
        text = "".join("".join(three_digits(x) for x in row) + "\n" for row in rows)
        write(f"har/{part}/X_{part}.txt" + (".gz" if part == "test" else ""), text)
        write(f"har/{part}/y_{part}.txt", "".join(f"{y}\n" for y in ys))
    write("har/features.txt", "".join(f"{i + 1} {name}\n" for i, name in enumerate(names)))
    write("har/activity_labels.txt", "".join(f"{i + 1} {a}\n" for i, a in enumerate(activities)))
    rows = [[float(f"{x:.7e}") for x in row] for row in np.concatenate([train, test])]
    expected = {
        "rows": [[float(str(np.float32(x))) for x in row] for row in rows],
        "activities": [activities[y - 1] for y in labels[0] + labels[1]],
    }
    write("har.json", json.dumps(expected) + "\n")


def mat():
    """`HHAR.mat` and `reuters10k.mat`: X and Y, of either type, lying or standing, packed or not."""
    x = np.round(rng.normal(size=(6, 4)), 3)
    y = np.array([3, 1, 3, 6, 1, 6])
    for name, labels, packed in [
        ("lying", y.reshape(1, -1).astype(np.float64), False),
        ("lying_packed", y.reshape(1, -1).astype(np.uint8), True),
        ("standing", y.reshape(-1, 1).astype(np.int64), False),
        ("standing_packed", y.reshape(-1, 1).astype(np.float64), True),
    ]:
        file = OUT / f"mat/{name}.mat"
        file.parent.mkdir(parents=True, exist_ok=True)
        scipy.io.savemat(file, {"X": x, "Y": labels}, do_compression=packed)
        # The header has the date in it; the same bytes every day are wanted.
        file.write_bytes(b"MATLAB 5.0 MAT-file, written by SciPy".ljust(116) + file.read_bytes()[116:])
    write("mat.json", json.dumps({"x": x.tolist(), "y": y.tolist()}) + "\n")


def stl10():
    """What NumPy makes of 3 + 2 pictures whose bytes follow a formula."""
    n = 5 * 3 * 96 * 96
    data = ((np.arange(n, dtype=np.uint64) * 2654435761 % 2**32) >> 24).astype(np.uint8)
    pictures = data.reshape(-1, 3, 96, 96).transpose(0, 3, 2, 1)
    at = [(0, 0, 0, 0), (0, 0, 1, 0), (0, 1, 0, 0), (0, 0, 0, 1), (2, 95, 3, 2), (4, 17, 80, 1)]
    expected = {
        "crc32": zlib.crc32(np.ascontiguousarray(pictures).tobytes()),
        "pixels": [[*index, int(pictures[index])] for index in at],
    }
    write("stl10.json", json.dumps(expected) + "\n")


if __name__ == "__main__":
    shutil.rmtree(OUT, ignore_errors=True)
    for make in [tokens, vectors, har, mat, stl10]:
        make()
