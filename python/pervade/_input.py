"""Conversion of array-likes to arrays that the library reads in place, and of data frames to columns."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np
from scipy import sparse
from sklearn.utils.validation import check_array, validate_data

from pervade._frames import ArrowFrame, Column, PandasFrame, as_frame

if TYPE_CHECKING:
    from pervade._core import _Table

# Types that the library stores unchanged.
KEPT = (np.dtype(np.uint8), np.dtype(np.float16), np.dtype(np.float32), np.dtype(np.float64))

# NumPy's requirements for memory that is read in place: C order and aligned.
IN_PLACE: Final = ("C", "A")

# Data frames of numbers with more columns are read as arrays.
MAX_COLUMNS = 200

# Options of scikit-learn's validation.
ACCEPTED: Final[dict[str, Any]] = {
    "accept_sparse": "csr",
    "dtype": "numeric",
    "order": "C",
    "ensure_all_finite": False,
}


def table(estimator: Any, X: Any, *, reset: bool) -> _Table:
    """The rows of `X`, checked as scikit-learn does; the library checks that numbers are finite."""
    frame = as_frame(X)
    if not reset:
        return new_rows(estimator, X, frame)
    if frame is not None and by_columns(estimator, frame):
        validate_data(estimator, frame.checked, reset=True, skip_check_array=True)
        if frame.n_rows < 2:
            raise ValueError(f"Found array with {frame.n_rows} sample(s) while a minimum of 2 is required by VaDE.")
        kept = kept_columns(estimator)
        names = frame.names or [""] * frame.n_columns
        return [
            # What a column that is kept holds is never looked at.
            Column(name, "numbers", np.zeros(frame.n_rows)) if name in kept else frame.column(j, name)
            for j, name in enumerate(names)
        ]
    checked = validate_data(
        estimator, X if frame is None else frame.checked, reset=True, ensure_min_samples=2, **ACCEPTED
    )
    # Sparse rows have no gaps.
    has_gaps = estimator.missing_informative and not sparse.issparse(checked)
    if has_column_options(estimator) or has_gaps:
        return array_columns(checked, [""] * checked.shape[1])
    return in_place(checked)


def new_rows(estimator: Any, X: Any, frame: PandasFrame | ArrowFrame | None) -> _Table:
    """Rows for a fitted estimator."""
    schema, clustered = estimator._schema, estimator._clustered
    if frame is not None and frame.names and estimator._is_typed and schema["is_named"]:
        # The library matches the names, in any order, and tells which are missing or unknown.
        aside = {*schema["kept"], *schema["left_out"]}
        order = {column["name"]: j for j, column in enumerate(schema["columns"])}
        given = [(j, name) for j, name in enumerate(frame.names) if name not in aside or name in order]
        given.sort(key=lambda column: order.get(column[1], len(order)))
        return [frame.column(j, name) for j, name in given]
    if frame is not None and (schema is not None or len(clustered) < estimator.n_features_in_):
        validate_data(estimator, frame.checked, reset=False, skip_check_array=True)
        if schema is None:
            return in_place(check_array(frame.taken(clustered), **ACCEPTED))
        return [frame.column(j, c["name"]) for j, c in zip(clustered, schema["columns"], strict=True)]
    checked = validate_data(estimator, X if frame is None else frame.checked, reset=False, **ACCEPTED)
    if len(clustered) < estimator.n_features_in_:
        checked = checked[:, clustered]
    if estimator._is_typed:
        return array_columns(checked, [column["name"] for column in schema["columns"]])
    return in_place(checked)


def named_apart(estimator: Any, X: Any, names: list[str]) -> _Table:
    """The rows of `X` for a fitted estimator that matches columns itself, by names that are not part of `X`."""
    checked = check_array(X, **ACCEPTED)
    return array_columns(checked, names) if estimator._is_typed else in_place(checked)


def columns_aside(estimator: Any, frame: PandasFrame | ArrowFrame) -> list[Column]:
    """The columns of a frame that are not clustered but name the rows; those that no text can be made of are left out."""
    aside = []
    for j, name in enumerate(frame.names or ()):
        if name in estimator._kept:
            try:
                aside.append(frame.column(j, name))
            except (TypeError, ValueError):
                continue
    return aside


def by_columns(estimator: Any, frame: PandasFrame | ArrowFrame) -> bool:
    """Whether the library is to find the types of a frame's columns."""
    if has_column_options(estimator) or estimator.missing_informative or not frame.is_numbers:
        return True
    # For these, all columns are alike.
    is_shared = estimator.prepare is not None or estimator.noise_variance is not None or estimator.recipe == "paper"
    is_shared = is_shared or estimator.likelihood not in (None, "auto") or estimator.image_shape is not None
    return not is_shared and frame.n_columns <= MAX_COLUMNS


def has_column_options(estimator: Any) -> bool:
    """Whether the user said something about columns."""
    return bool(estimator.column_types or estimator.keep_columns or estimator.missing)


def kept_columns(estimator: Any) -> set[str]:
    """The columns that the user wants to be left out."""
    types = estimator.column_types or {}
    return {*(estimator.keep_columns or ()), *(name for name, kind in types.items() if kind == "keep")}


def array_columns(checked: Any, names: list[str]) -> list[Column]:
    """The columns of an array."""
    if sparse.issparse(checked):
        raise ValueError("`X` is sparse, but columns of sparse rows have no types: give it as an array")
    if len(names) != checked.shape[1]:
        raise ValueError(f"`X` has {checked.shape[1]} columns, but there are {len(names)} names")
    cells = checked.astype(np.float64)
    return [Column(name, "numbers", np.ascontiguousarray(cells[:, j])) for j, name in enumerate(names)]


def in_place(checked: Any) -> _Table:
    """Checked rows in the form that the library reads."""
    rows: _Table = sparse_rows(checked) if sparse.issparse(checked) else dense_rows(checked)
    return rows


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
