"""Columns with types: what a fitted model knows of them, and rows in the table's own types."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_array

from pervade._fitted import Fitted
from pervade._frames import as_frame, as_values, new_frame
from pervade._input import table
from pervade._settings import as_seed


class TypedColumns(Fitted):
    """The part of the estimator that deals with columns."""

    random_state: Any
    n_features_in_: int
    # What the columns mean, as the model stores it; None if they are numbers alike.
    _schema: Any
    # Whether cells are more than the numbers of the table, so that columns are matched by name.
    _is_typed: bool
    # Where the clustered columns are among those of the fit.
    _clustered: list[int]
    # The library whose data frames the user has.
    _frame_kind: str

    # Columns that are not clustered and name the rows.
    _kept: list[str]

    def impute(self, X: Any, *, draw: bool = False, first_row: int = 0) -> Any:
        """Fill in missing cells.

        Cells that the model cannot read, such as levels that the fit did not have, are missing too; a warning tells. Of
        levels so rare that they were pooled, the cell is "(other)".

        Parameters
        ----------
        X : array-like or data frame of shape (n_samples, n_features)
            The rows.
        draw : bool, default=False
            Whether cells are drawn from p(x|z), by `random_state`, instead of its mean or the most likely level. The
            draws of a row depend on its number in the table.
        first_row : int, default=0
            The number of the first row: with it, the parts of a table get the same draws as the whole.

        Returns
        -------
        X : array or data frame of shape (n_samples, n_features)
            A copy of the same kind, with missing cells of clustered columns filled in and all others as they were.
        """
        model = self._use()
        frame = as_frame(X)
        rows = table(self, X if frame is None else frame, reset=False)
        if isinstance(rows, tuple):
            return X.copy()  # sparse rows have no missing cells
        if first_row < 0:
            raise ValueError(f"`first_row` is {first_row}, must be at least 0")
        seed = as_seed(self.random_state) if draw else 0
        cells, is_missing = model.impute(
            rows, self._compute_options(), draw=draw, seed=seed, first_row=first_row
        )
        if frame is None:
            return self._filled_array(X, cells, is_missing)
        names = frame.names if self._is_typed and self._schema["is_named"] else None
        filled = {}
        for j in np.flatnonzero(is_missing.any(axis=0)):
            column, mask = self._schema["columns"][j], is_missing[:, j]
            position = self._clustered[j] if names is None else names.index(column["name"])
            given = frame.column(position, column["name"])
            if given.kind == "words" or given.levels:
                originals = dict(zip(given.levels, given.originals, strict=True))
                values = [originals.get(text, text) for text in model.text(int(j), cells[mask, j].copy())]
            else:
                values = as_values(column, cells[mask, j]).tolist()
            filled[position] = given, mask, values
        return frame.filled(filled)

    def _filled_array(self, X: Any, cells: NDArray[np.float64], is_missing: NDArray[np.bool_]) -> NDArray[Any]:
        """A copy of an array with other values in missing cells of the clustered columns."""
        filled = np.array(check_array(X, dtype="numeric", ensure_all_finite=False))
        for j, position in enumerate(self._clustered):
            mask = is_missing[:, j]
            if mask.any():
                column = cells[mask, j]
                typed = self._is_typed
                filled[mask, position] = as_values(self._schema["columns"][j], column) if typed else column
        return filled

    def _in_own_types(self, rows: NDArray[np.float32]) -> Any:
        """Rows of cells as a data frame, if the columns are not all numbers."""
        return new_frame(self._frame_kind, self._schema["columns"], rows) if self._is_typed else rows

    def _take_columns(self, about: dict[str, Any]) -> None:
        """Sets the attributes about columns."""
        self._schema = about.get("schema") and {"kept": [], "left_out": [], "missing": [], **about["schema"]}
        columns = [] if self._schema is None else self._schema["columns"]
        gaps = gap_columns(self._schema)
        if gaps:
            # The table has no such columns.
            self._schema["columns"] = columns[: -len(gaps)]
        self._is_typed = self._schema is not None and not is_numbers(self._schema)
        self._kept = self._schema["kept"] if self._schema is not None else about.get("other_columns", [])
        names = about["column_names"] and about["column_names"][: about["n_columns"] - len(gaps)]
        given = [str(name) for name in getattr(self, "feature_names_in_", ())]
        if names is not None and given:
            self._clustered = [given.index(name) for name in names] if len(names) < len(given) else list(range(len(given)))
        elif self._schema is not None:
            # `column_3` is the third.
            self._clustered = [int(column["name"].rpartition("_")[2]) - 1 for column in self._schema["columns"]]
        else:
            self._clustered = list(range(self.n_features_in_))
        self._frame_kind = "pandas"
        self.column_types_ = {column["name"]: column["type"] for column in columns}
        self.column_types_.update({name: "keep" for name in self._schema["kept"]} if columns else {})
        shares = [column["share"] for column in about.get("explained", [])]
        self.explained_ = dict(zip((column["name"] for column in columns), shares, strict=False))
        self.preparation_ = about["preparation"]["kind"]
        likelihood = about["likelihood"]
        self.likelihood_ = likelihood if isinstance(likelihood, str) else next(iter(likelihood))


def gap_columns(schema: dict[str, Any] | None) -> list[dict[str, Any]]:
    """The columns of a model that tell where others have gaps; they are the last."""
    return [column for column in (schema or {}).get("columns", ()) if column.get("gap_of") is not None]


def is_numbers(schema: dict[str, Any]) -> bool:
    """Whether every column is clustered, and its cells are the numbers of the table themselves."""

    def is_number(column: dict[str, Any]) -> bool:
        if column["type"] == "yes/no":
            return column.get("level_kind") == "numbers" and column["levels"] == ["0", "1"]
        return column["type"] in ("number", "positive", "count")

    others = schema["kept"] or schema["left_out"] or schema["missing"]
    return not others and all(is_number(column) for column in schema["columns"])
