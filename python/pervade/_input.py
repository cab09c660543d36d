"""Conversion of array-likes to arrays that the library reads in place."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np
from scipy import sparse
from sklearn.utils.validation import check_array, validate_data

if TYPE_CHECKING:
    from pervade._core import _Table

# Types that the library stores unchanged.
KEPT = (np.dtype(np.uint8), np.dtype(np.float16), np.dtype(np.float32), np.dtype(np.float64))

# NumPy's requirements for memory that is read in place: C order and aligned.
IN_PLACE: Final = ("C", "A")

# Options of scikit-learn's validation.
ACCEPTED: Final[dict[str, Any]] = {
    "accept_sparse": "csr",
    "dtype": "numeric",
    "order": "C",
    "ensure_all_finite": False,
}


def table(estimator: Any, X: Any, *, reset: bool) -> _Table:
    """The rows of `X`, checked as scikit-learn does; the library checks that numbers are finite."""
    checked = validate_data(
        estimator, from_arrow(X), reset=reset, ensure_min_samples=2 if reset else 1, **ACCEPTED
    )
    return in_place(checked)


def named_apart(X: Any) -> _Table:
    """The rows of `X` for a model that matches columns itself, by names that are not part of `X`."""
    return in_place(check_array(from_arrow(X), **ACCEPTED))


def in_place(checked: Any) -> _Table:
    """Checked rows in the form that the library reads."""
    rows: _Table = sparse_rows(checked) if sparse.issparse(checked) else dense_rows(checked)
    return rows


def from_arrow(X: Any) -> Any:
    """A pyarrow table of an object that offers Arrow's stream but nothing that NumPy understands."""
    if not hasattr(X, "__arrow_c_stream__") or hasattr(X, "__array__"):
        return X
    try:
        import pyarrow
    except ImportError as missing:
        raise ValueError(f"`X` is a {type(X).__name__}, which needs pyarrow to be read") from missing
    return pyarrow.table(X)


def dense_rows(X: Any) -> Any:
    """`X` itself if the library stores its type, else a copy in single or double precision."""
    dtype = X.dtype.newbyteorder("=")
    if dtype in KEPT:
        return np.require(X, dtype, IN_PLACE)
    if dtype.kind in "biu":
        # Integers become single precision unless that would round them.
        single = X.astype(np.float32)
        return single if np.array_equal(single, X) else X.astype(np.float64)
    return np.require(X, np.float64, IN_PLACE)


def sparse_rows(X: Any) -> Any:
    """Row starts, column indices and values, with column indices that increase within a row."""
    if not X.has_canonical_format:
        X = X.copy()
        X.sum_duplicates()
    with np.errstate(over="ignore"):  # values that overflow become infinite, which the library reports
        values = np.require(X.data, np.float32, IN_PLACE)
    starts, columns = np.require(X.indptr, np.int64, IN_PLACE), np.require(X.indices, np.int32, IN_PLACE)
    return starts, columns, values, X.shape[1]
