"""Every container, type and order of rows gives the same model; large arrays are not copied."""

import subprocess
import sys

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from scipy import sparse

from pervade._input import table


class Tensor:
    """Has only `__array__`, like tensors of other libraries."""

    def __init__(self, values):
        self.values = values
        self.shape, self.ndim, self.dtype = values.shape, values.ndim, values.dtype

    def __len__(self):
        return len(self.values)

    def __array__(self, dtype=None, copy=None):
        return self.values if dtype is None else self.values.astype(dtype)


class Stream:
    """Has only Arrow's stream."""

    def __init__(self, inner):
        self.inner = inner

    def __arrow_c_stream__(self, requested_schema=None):
        return self.inner.__arrow_c_stream__(requested_schema)


@pytest.fixture
def halves(rows):
    """Rows that every floating-point type represents exactly."""
    return rows.astype(np.float16)


def unaligned(values):
    """The same numbers, misaligned by one byte."""
    room = np.empty(values.nbytes + 1, np.uint8)[1:]
    room[:] = np.frombuffer(values.tobytes(), np.uint8)
    return np.frombuffer(room.data, values.dtype).reshape(values.shape)


NAMES = [f"c{i}" for i in range(5)]
CONTAINERS = {
    "float16": lambda x: x,
    "float32": lambda x: x.astype(np.float32),
    "float64": lambda x: x.astype(np.float64),
    "big-endian": lambda x: x.astype(">f4"),
    "fortran": lambda x: np.asfortranarray(x.astype(np.float32)),
    "every second row": lambda x: np.repeat(x.astype(np.float64), 2, axis=0)[::2],
    "unaligned": lambda x: unaligned(x.astype(np.float32)),
    "object": lambda x: x.astype(object),
    "list": lambda x: x.astype(np.float64).tolist(),
    "longdouble": lambda x: x.astype(np.longdouble),
    "pandas": lambda x: pd.DataFrame(x.astype(np.float32), columns=NAMES),
    "polars": lambda x: pl.DataFrame(x.astype(np.float32), schema=NAMES),
    "pyarrow": lambda x: pa.table({n: x[:, i].astype(np.float32) for i, n in enumerate(NAMES)}),
    "arrow stream": lambda x: Stream(pa.table({n: x[:, i].astype(np.float32) for i, n in enumerate(NAMES)})),
    "tensor": lambda x: Tensor(x.astype(np.float32)),
}


@pytest.mark.parametrize("container", CONTAINERS)
def test_containers_agree(small, halves, container):
    expected = small().fit(halves.astype(np.float32))
    given = CONTAINERS[container](halves)
    vade = small().fit(given)
    np.testing.assert_array_equal(vade.labels_, expected.labels_)
    # Double precision is scaled in double precision.
    np.testing.assert_allclose(vade.transform(given), expected.transform(halves.astype(np.float32)), atol=1e-4)
    named = container in ("pandas", "polars", "pyarrow", "arrow stream")
    assert hasattr(vade, "feature_names_in_") == named
    if named:
        assert list(vade.feature_names_in_) == NAMES


@pytest.mark.parametrize("dtype", [np.int8, np.int16, np.uint16, np.int32, np.int64, np.uint64, bool])
def test_whole_numbers(small, dtype):
    X = np.random.default_rng(0).integers(0, 2, (60, 4)).astype(dtype)
    np.testing.assert_array_equal(small(2).fit(X).labels_, small(2).fit(X.astype(np.float32)).labels_)


def test_large_whole_numbers_are_not_rounded(small):
    X = np.array([[2**24, 0], [2**24 + 1, 5], [3, 4]])
    assert table(small(), X, reset=True).dtype == np.float64
    assert table(small(), X // 2, reset=True).dtype == np.float32


def test_bytes_are_divided_by_255(small):
    X = np.random.default_rng(0).integers(0, 256, (60, 4)).astype(np.uint8)
    bytes_, floats = small(2, prepare="unit").fit(X), small(2, prepare="unit").fit(X.astype(np.float32))
    assert bytes_.history_["pretrain"][0]["loss"] == pytest.approx(floats.history_["pretrain"][0]["loss"], rel=1e-3)


@pytest.mark.parametrize("make", [sparse.csr_matrix, sparse.csr_array, sparse.csc_matrix, sparse.csc_array, sparse.coo_array])
@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int32])
def test_sparse_rows(small, make, dtype):
    X = np.random.default_rng(0).poisson(0.4, (80, 6)).astype(dtype)
    expected = small(2, prepare="none").fit(X)
    vade = small(2, prepare="none").fit(make(X))
    np.testing.assert_allclose(vade.transform(make(X)), expected.transform(X), atol=2e-4)
    np.testing.assert_array_equal(vade.predict(X), vade.predict(make(X)))


def test_sparse_rows_of_any_order(small):
    X = sparse.random(50, 8, density=0.4, random_state=0, format="csr", dtype=np.float32)
    expected = small(2).fit(X)._model.to_bytes()
    shuffled = X.copy()
    for i in range(50):
        part = slice(*X.indptr[i : i + 2])
        shuffled.indices[part] = X.indices[part][::-1]
        shuffled.data[part] = X.data[part][::-1]
    shuffled.has_sorted_indices = False
    shuffled.has_canonical_format = False
    before = shuffled.indices.copy()
    assert small(2).fit(shuffled)._model.to_bytes() == expected
    np.testing.assert_array_equal(shuffled.indices, before)  # what was given is left alone
    wide = X.copy()
    wide.indices, wide.indptr = wide.indices.astype(np.int64), wide.indptr.astype(np.int64)
    assert small(2).fit(wide)._model.to_bytes() == expected


@pytest.mark.parametrize("dtype", [np.uint8, np.float16, np.float32, np.float64])
def test_kept_types_are_not_copied(small, dtype):
    X = np.ones((10, 3), dtype)
    assert np.shares_memory(table(small(), X, reset=True), X)
    assert not np.shares_memory(table(small(), unaligned(X), reset=True), X)
    read_only = X.copy()
    read_only.flags.writeable = False
    assert np.shares_memory(table(small(), read_only, reset=True), read_only)


MEMORY = """
import resource, sys
import numpy as np
from pervade import VaDE
peak = lambda: resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
small = dict(hidden=(8,), latents=2, n_components=4, graph_rows=500, pretrain_epochs=1, epochs=1, random_state=0,
             device="cpu", pretrain_batch=1000, batch=1000, choose="elbo")  # without the graph of the prepared rows
VaDE(2, **small).fit(np.random.default_rng(0).random((50, 5)))
X = np.random.default_rng(0).integers(0, 100, (60_000, 1000), dtype=np.uint8)
X[::2, :500] += 100
X = X.astype(sys.argv[1], copy=False)
before = peak()
VaDE(2, **small).fit(X).predict(X)
print(X.nbytes / 2**20, peak() - before)
"""


@pytest.mark.parametrize("dtype", ["uint8", "float16"])
def test_no_copy_of_the_whole_array_in_single_precision(dtype):
    done = subprocess.run([sys.executable, "-c", MEMORY, dtype], capture_output=True, text=True, check=True)
    _, grown = map(float, done.stdout.split())
    # Single precision would take 229 MiB more; latents, labels and buffers take a few.
    assert grown < 60, done.stdout
