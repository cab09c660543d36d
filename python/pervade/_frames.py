"""Data frames as columns that the library reads: pandas, and everything that offers Arrow's stream, such as polars."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

DAY = 86_400


class Column(NamedTuple):
    """A column of a data frame, for the library."""

    name: str
    # "numbers"; "truth"; "words", "categories" and "ordered", whose values are indices into `levels`; "days",
    # "timestamps" and "timestamps-utc", whose values are seconds since 1970.
    kind: str
    # NaN where missing.
    values: NDArray[np.float64]
    levels: list[str] = []
    # Decimal places of the seconds.
    decimals: int = 0
    # What the levels are in the frame.
    originals: list[Any] = []


def as_frame(X: Any) -> PandasFrame | ArrowFrame | None:
    """The data frame that `X` is; None for arrays."""
    if isinstance(X, (PandasFrame, ArrowFrame)):
        return X
    if hasattr(X, "iloc") and hasattr(X, "columns"):
        return PandasFrame(X)
    if not hasattr(X, "__arrow_c_stream__") or (hasattr(X, "__array__") and not hasattr(X, "columns")):
        return None
    try:
        import pyarrow
    except ImportError as missing:
        if hasattr(X, "__array__") and all(dtype.is_numeric() for dtype in getattr(X, "dtypes", [])):
            return None
        raise ValueError(f"`X` is a {type(X).__name__}, which needs pyarrow to be read") from missing
    if isinstance(X, pyarrow.Table):
        return ArrowFrame(X, X)
    return ArrowFrame(X, X.to_arrow() if hasattr(X, "to_arrow") else pyarrow.table(X))


class PandasFrame:
    """A data frame of pandas."""

    kind = "pandas"

    def __init__(self, frame: Any) -> None:
        self.checked = frame  # what scikit-learn checks
        self.n_rows, self.n_columns = frame.shape

    @property
    def names(self) -> list[str] | None:
        """Names of the columns, if all are text."""
        return text_names(list(self.checked.columns))

    @property
    def is_numbers(self) -> bool:
        """Whether every column is NumPy's numbers."""
        return all(isinstance(d, np.dtype) and d.kind in "biuf" for d in self.checked.dtypes)

    def taken(self, positions: list[int]) -> Any:
        """Some of the columns."""
        return self.checked.iloc[:, positions]

    def column(self, position: int, name: str) -> Column:
        """A column for the library."""
        import pandas as pd
        from pandas.api import types

        series = self.checked.iloc[:, position]
        dtype = series.dtype
        if isinstance(dtype, pd.CategoricalDtype):
            kind = "ordered" if dtype.ordered else "categories"
            return coded(name, kind, series.cat.codes.to_numpy(np.int64), list(dtype.categories))
        if types.is_datetime64_any_dtype(dtype):
            return dates(name, microseconds(series), zoned=getattr(dtype, "tz", None) is not None)
        if types.is_timedelta64_dtype(dtype):
            return Column(name, "numbers", series.dt.total_seconds().to_numpy(np.float64, na_value=np.nan))
        if types.is_bool_dtype(dtype) or types.is_numeric_dtype(dtype) and not types.is_complex_dtype(dtype):
            kind = "truth" if types.is_bool_dtype(dtype) else "numbers"
            return Column(name, kind, np.ascontiguousarray(series.to_numpy(np.float64, na_value=np.nan)))
        if types.is_object_dtype(dtype) or types.is_string_dtype(dtype):
            return self._objects(name, series)
        raise unsuitable(name, dtype)

    @staticmethod
    def _objects(name: str, series: Any) -> Column:
        """A column of Python's objects, by what they are."""
        import pandas as pd

        what = pd.api.types.infer_dtype(series, skipna=True)
        if what in ("integer", "floating", "mixed-integer-float", "decimal", "boolean", "empty"):
            gaps = series.isna().to_numpy(bool)
            cells = [np.nan if gap else float(cell) for gap, cell in zip(gaps, series, strict=True)]
            return Column(name, "truth" if what == "boolean" else "numbers", np.array(cells, np.float64))
        if what in ("datetime64", "datetime", "date"):
            known = series.dropna()
            zoned = len(known) > 0 and getattr(known.iloc[0], "tzinfo", None) is not None
            return dates(name, microseconds(pd.to_datetime(series, utc=zoned)), zoned=zoned)
        try:
            codes, originals = pd.factorize(series)
        except TypeError:
            raise unsuitable(name, f"object ({what})") from None
        return coded(name, "words", np.asarray(codes, np.int64), list(originals))

    def filled(self, cells: dict[int, tuple[Column, NDArray[np.bool_], list[Any]]]) -> Any:
        """A copy with other values in some cells: by column, which cells, and their values."""
        import pandas as pd

        frame = self.checked.copy()
        for position, (column, mask, values) in cells.items():
            series = frame.iloc[:, position].copy()
            dtype = series.dtype
            if isinstance(dtype, pd.CategoricalDtype):
                known = set(dtype.categories)
                series = series.cat.add_categories([v for v in dict.fromkeys(values) if v not in known])
                series[mask] = values
            elif column.kind in ("days", "timestamps", "timestamps-utc") and dtype != object:
                moments = pd.Series(pd.to_datetime(values, utc=column.kind == "timestamps-utc"), index=series.index[mask])
                series[mask] = moments.astype(dtype)
            elif pd.api.types.is_timedelta64_dtype(dtype):
                series[mask] = pd.to_timedelta(values, unit="s").astype(dtype)
            else:
                series[mask] = values if dtype == object else pd.array(values, dtype=dtype)
            frame.isetitem(position, series)
        return frame


class ArrowFrame:
    """A table of pyarrow, or one that was converted to it."""

    def __init__(self, given: Any, table: Any) -> None:
        self.kind = "polars" if hasattr(given, "with_columns") else "pyarrow"
        self.given, self.checked = given, table
        self.n_rows, self.n_columns = table.shape

    @property
    def names(self) -> list[str] | None:
        """Names of the columns."""
        return list(self.checked.column_names)

    @property
    def is_numbers(self) -> bool:
        """Whether every column is numbers without gaps."""
        from pyarrow import types

        def is_number(kind: Any) -> bool:
            return bool(types.is_integer(kind) or types.is_floating(kind) or types.is_boolean(kind))

        return all(is_number(c.type) and c.null_count == 0 for c in self.checked.columns)

    def taken(self, positions: list[int]) -> Any:
        """Some of the columns."""
        return self.checked.select(positions)

    def column(self, position: int, name: str) -> Column:
        """A column for the library."""
        import pyarrow as pa
        from pyarrow import types

        cells = self.checked.column(position)
        kind = cells.type
        if types.is_dictionary(kind):
            of = "ordered" if kind.ordered else "categories"
            return arrow_coded(name, of, cells.combine_chunks())
        if types.is_string(kind) or types.is_large_string(kind):
            return arrow_coded(name, "words", cells.combine_chunks().dictionary_encode())
        if types.is_boolean(kind):
            return Column(name, "truth", arrow_numbers(cells.cast(pa.uint8())))
        if types.is_integer(kind) or types.is_floating(kind) or types.is_decimal(kind) or types.is_null(kind):
            return Column(name, "numbers", arrow_numbers(cells))
        if types.is_duration(kind):
            return Column(name, "numbers", arrow_numbers(cells.cast(pa.duration("us")).cast(pa.int64())) / 1e6)
        if types.is_date(kind) or types.is_timestamp(kind):
            zoned = types.is_timestamp(kind) and kind.tz is not None
            moments = cells.cast(pa.timestamp("us"), safe=False).to_numpy()
            return dates(name, moments.astype("datetime64[us]"), zoned=zoned)
        raise unsuitable(name, kind)

    def filled(self, cells: dict[int, tuple[Column, NDArray[np.bool_], list[Any]]]) -> Any:
        """A copy with other values in some cells: by column, which cells, and their values."""
        import pyarrow as pa
        from pyarrow import types

        table = self.checked
        for position, (_, mask, values) in cells.items():
            field = table.schema.field(position)
            old = table.column(position).combine_chunks()
            if types.is_dictionary(field.type):
                column = arrow_levels(old, mask, values)
            else:
                new = arrow_values(values, field.type)
                source = np.where(mask, len(old) + np.cumsum(mask) - 1, np.arange(len(old)))
                column = pa.concat_arrays([old, new]).take(pa.array(source))
            table = table.set_column(position, field, column)
        return self._as_given(table, list(cells))

    def _as_given(self, table: Any, changed: list[int]) -> Any:
        """The table in the type that the user gave."""
        if self.kind != "polars":
            return table
        import polars as pl

        names = [self.given.columns[position] for position in changed]
        columns = [pl.Series(name, pl.from_arrow(table.column(name))).cast(self.given.schema[name]) for name in names]
        return self.given.with_columns(columns)


def arrow_levels(old: Any, mask: NDArray[np.bool_], values: list[Any]) -> Any:
    """A dictionary of Arrow with other levels in some cells; the order of its levels stays."""
    import pyarrow as pa

    levels = list(dict.fromkeys([*old.dictionary.to_pylist(), *values]))
    index = {level: code for code, level in enumerate(levels)}
    codes = old.indices.cast("int64").fill_null(0).to_numpy(zero_copy_only=False).copy()
    codes[mask] = [index[value] for value in values]
    gaps = old.is_null().to_numpy(zero_copy_only=False) & ~mask
    indices = pa.array(codes, mask=gaps).cast(old.type.index_type)
    return pa.DictionaryArray.from_arrays(indices, pa.array(levels, old.type.value_type), ordered=old.type.ordered)


def arrow_values(values: list[Any], kind: Any) -> Any:
    """Values as an array of this type of Arrow; durations are seconds."""
    import pyarrow as pa
    from pyarrow import types

    if types.is_duration(kind):
        return pa.array((np.asarray(values, float) * 1e6).astype("timedelta64[us]")).cast(kind, safe=False)
    if types.is_date(kind) or types.is_timestamp(kind):
        return pa.array(np.asarray(values, "datetime64[us]")).cast(kind, safe=False)
    return pa.array(values).cast(kind, safe=False)


def arrow_numbers(cells: Any) -> NDArray[np.float64]:
    """Numbers of an Arrow column in double precision, NaN where missing."""
    import pyarrow as pa

    numbers = cells.cast(pa.float64(), safe=False).to_numpy()
    return np.require(numbers, np.float64, ("C", "A"))


def arrow_coded(name: str, kind: str, cells: Any) -> Column:
    """A column of words from a dictionary of Arrow."""
    codes = cells.indices.cast("int64").fill_null(-1).to_numpy(zero_copy_only=False)
    return coded(name, kind, codes, cells.dictionary.to_pylist())


def microseconds(series: Any) -> NDArray[Any]:
    """Timestamps of pandas in UTC or without a zone, as NumPy has them."""
    if getattr(series.dtype, "tz", None) is not None:
        series = series.dt.tz_convert("UTC").dt.tz_localize(None)
    return np.asarray(series.to_numpy(dtype="datetime64[us]"))


def dates(name: str, moments: NDArray[Any], *, zoned: bool) -> Column:
    """A column of dates, or of timestamps if some have a time of day."""
    gaps = np.isnat(moments)
    ticks = np.where(gaps, 0, moments.astype(np.int64))
    seconds = np.where(gaps, np.nan, ticks / 1e6)
    if not zoned and not (ticks % (DAY * 1_000_000)).any():
        return Column(name, "days", seconds)
    decimals = 0 if not (ticks % 1_000_000).any() else 3 if not (ticks % 1000).any() else 6
    return Column(name, "timestamps-utc" if zoned else "timestamps", seconds, decimals=decimals)


def coded(name: str, kind: str, codes: NDArray[np.int64], originals: list[Any]) -> Column:
    """A column of levels; codes below zero are missing cells. Levels with the same text become one."""
    texts = [level_text(original) for original in originals]
    levels = {level: index for index, level in enumerate(dict.fromkeys(texts))}
    # The last entry is for missing cells, whose code is -1; so are levels without text.
    values = np.array([np.nan if level is None else levels[level] for level in texts] + [np.nan])
    first: dict[str | None, Any] = {}
    for level, original in zip(texts, originals, strict=True):
        first.setdefault(level, original)
    return Column(name, kind, values[codes], [level or "" for level in levels], originals=list(first.values()))


def level_text(level: Any) -> str | None:
    """A level as text: 1.0 is `1`, as in a table of text."""
    if level is None:
        return None
    if isinstance(level, (float, np.floating)) and float(level).is_integer():
        return str(int(level))
    return str(level)


def text_names(names: list[Any]) -> list[str] | None:
    """The names, if all are text: others are numbers of columns to scikit-learn."""
    return names if names and all(isinstance(name, str) for name in names) else None


def unsuitable(name: str, dtype: Any) -> ValueError:
    return ValueError(
        f"column `{name}` is of type {dtype}, which cannot be clustered: convert it, or name it in `keep_columns`"
    )


def as_values(column: dict[str, Any], cells: NDArray[Any]) -> NDArray[Any]:
    """The library's cells of a column, none of them missing, in its own type: levels, truth values, whole numbers, dates."""
    cells = cells.astype(np.float64)
    if levels := column.get("levels"):
        kind = column.get("level_kind", "words")
        each: list[Any] = levels
        if kind == "truth":
            each = [level == "true" for level in levels]
        elif kind == "numbers":
            each = [float(level) for level in levels]
            each = [int(level) for level in each] if all(level.is_integer() for level in each) else each
        array = np.array(each, object if kind == "words" else None)
        return np.asarray(array[np.clip(np.rint(cells), 0, len(levels) - 1).astype(int)])
    if column["type"] == "date":
        origin = column["date"]["origin"]
        if column["date"]["time"] is None:
            days = np.rint(cells / DAY).astype(np.int64) + origin // DAY
            return np.asarray(days).astype("datetime64[D]")
        ticks = np.rint(cells * 1e6).astype(np.int64) + origin * 1_000_000
        return np.asarray(ticks).astype("datetime64[us]")
    if column["type"] == "count" or column["whole"]:
        cells = np.maximum(cells, 0) if column["type"] == "count" else cells
        return np.asarray(np.rint(cells).astype(np.int64))
    return np.asarray(cells)


def new_frame(kind: str, columns: list[dict[str, Any]], cells: NDArray[Any]) -> Any:
    """A data frame of this library from rows of cells; NaN where missing."""
    is_missing = np.isnan(cells)
    known = np.where(is_missing, 0, cells)
    values = {column["name"]: as_values(column, known[:, j]) for j, column in enumerate(columns)}
    gaps = {column["name"]: is_missing[:, j] for j, column in enumerate(columns)}
    if kind == "pyarrow":
        import pyarrow as pa

        return pa.table({name: pa.array(array, mask=gaps[name]) for name, array in values.items()})
    if kind == "polars":
        import polars as pl

        def present(name: str, array: NDArray[Any]) -> list[Any]:
            return [None if gap else value for value, gap in zip(array.tolist(), gaps[name], strict=True)]

        return pl.DataFrame([pl.Series(name, present(name, array)) for name, array in values.items()])
    try:
        import pandas as pd
    except ImportError as missing:
        raise ValueError("rows of a table with column types need pandas") from missing
    zoned = {c["name"] for c in columns if c["type"] == "date" and (c["date"]["time"] or {}).get("zone", "Local") != "Local"}
    frame = pd.DataFrame(
        {
            name: pd.DatetimeIndex(array.astype("datetime64[us]")).tz_localize("UTC") if name in zoned
            else array.astype("datetime64[s]") if array.dtype == np.dtype("datetime64[D]")
            else array
            for name, array in values.items()
        }
    )  # fmt: skip
    for name, gap in gaps.items():
        if gap.any():
            frame[name] = frame[name].mask(gap)
    return frame
