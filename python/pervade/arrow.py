"""Clusters of Arrow record batches, for engines that map functions over them: Spark, Ray Data, Dask.

The model is fitted before, by the command or by `VaDE`; each worker loads it once.

Examples
--------
>>> import pervade.arrow
>>> clusters = pervade.arrow.assigner("m.pervade", keep={"id": "bigint"})  # doctest: +SKIP
>>> df.mapInArrow(clusters, clusters.ddl).write.parquet("clusters")        # doctest: +SKIP
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterable, Iterator, Mapping
from os import PathLike
from typing import Any

import numpy as np

from pervade import _core
from pervade._frames import ArrowFrame
from pervade._input import dense_rows
from pervade._settings import ComputeOptions, as_threads
from pervade._vade import VaDE

__all__ = ["Assigner", "assigner"]

# Models that this process has loaded: by path, time and size of the file, or by a hash of their bytes.
_LOADED: dict[tuple[Any, ...], _core.Model] = {}
# Enough for a job that compares a few models.
_MOST_LOADED = 8


def assigner(
    model: str | PathLike[str] | VaDE,
    probabilities: bool = False,
    *,
    keep: Mapping[str, str] | None = None,
    device: str = "cpu",
    n_jobs: int | None = 1,
) -> Assigner:
    """A function that assigns the rows of record batches to clusters.

    Parameters
    ----------
    model : str, path-like or VaDE
        A model file that all workers can read, or a fitted estimator, which travels with the function.
    probabilities : bool
        Whether the probability of the cluster, and of every cluster, is added.
    keep : dict
        Columns that go along to the result, with their types in Spark's words: `{"id": "bigint"}`.
    device : str
        Where to compute: "cpu", "cuda", "cuda:N" or "auto".
    n_jobs : int or None
        Threads of each call. Engines run one task per core, so that one is enough.

    Returns
    -------
    assigner : Assigner
        To be given to `mapInArrow` of Spark, with its `ddl`. Columns are matched by name, others are ignored.
    """
    return Assigner(model, probabilities, dict(keep or {}), device, n_jobs)


class Assigner:
    """Assigns rows to clusters, batch by batch; see `assigner`. It can be pickled and sent to workers."""

    def __init__(
        self,
        model: str | PathLike[str] | VaDE,
        probabilities: bool,
        keep: dict[str, str],
        device: str,
        n_jobs: int | None,
    ) -> None:
        self._path: str | None = None
        self._bytes: bytes | None = None
        if isinstance(model, VaDE):
            self._bytes = model._use().to_bytes()
        else:
            self._path = os.fspath(model)
        self._probabilities, self._keep, self._device, self._n_jobs = bool(probabilities), keep, device, n_jobs
        for name, kind in keep.items():
            if kind not in _arrow_types():
                raise ValueError(f"`keep` has the type {kind!r} for {name!r}, must be one of {', '.join(_arrow_types())}")
        about = json.loads(self._model().info())
        self._n_clusters = int(about["n_clusters"])
        self._names: list[str] | None = about["column_names"]
        self._n_columns = int(about["n_columns"])
        self._is_typed = about.get("schema") is not None

    @property
    def schema(self) -> Any:
        """The columns of the result, as pyarrow has them."""
        import pyarrow as pa

        types = _arrow_types()
        fields = [(name, types[kind]) for name, kind in self._keep.items()]
        return pa.schema([*fields, ("cluster", pa.int32()), *((name, pa.float32()) for name in self._added())])

    @property
    def ddl(self) -> str:
        """The columns of the result, as Spark has them: `id bigint, cluster int`."""
        kept = [f"{_quoted(name)} {kind}" for name, kind in self._keep.items()]
        return ", ".join([*kept, "cluster int", *(f"{name} float" for name in self._added())])

    def __call__(self, batches: Iterable[Any]) -> Iterator[Any]:
        """The results of record batches, one after the other: for `df.mapInArrow(assigner, assigner.ddl)` of Spark."""
        import pyarrow as pa

        for batch in batches:
            yield from self.table(pa.Table.from_batches([batch])).combine_chunks().to_batches() or [self._empty()]

    def table(self, table: Any) -> Any:
        """The results of a table of pyarrow: for `map_batches(assigner.table, batch_format="pyarrow")` of Ray Data."""
        import pyarrow as pa

        missing = [name for name in self._keep if name not in table.column_names]
        if missing:
            raise ValueError(f"`keep` names {missing[0]!r}, but the columns are {', '.join(table.column_names)}")
        if table.num_rows == 0:
            return self.schema.empty_table()
        clusters, probabilities = self._model().assign(
            self._rows(table), ComputeOptions(self._device, "fp32", as_threads(self._n_jobs))
        )
        columns = [table.column(name).cast(self.schema.field(name).type) for name in self._keep]
        columns.append(pa.chunked_array([pa.array(clusters, pa.int32())]))
        if self._probabilities:
            own = probabilities[np.arange(len(clusters)), clusters]
            columns.append(pa.chunked_array([pa.array(own, pa.float32())]))
            columns.extend(pa.chunked_array([pa.array(np.ascontiguousarray(p))]) for p in probabilities.T)
        return pa.table(columns, schema=self.schema)

    def frame(self, frame: Any) -> Any:
        """The results of a data frame of pandas: for `map_partitions(assigner.frame, meta=assigner.meta)` of Dask."""
        import pyarrow as pa

        result = self.table(pa.Table.from_pandas(frame, preserve_index=False)).to_pandas()
        result.index = frame.index
        return result

    @property
    def meta(self) -> Any:
        """An empty data frame with the columns of the result."""
        return self.schema.empty_table().to_pandas()

    def _added(self) -> list[str]:
        """Names of the probabilities."""
        return ["probability", *(f"cluster_{k}" for k in range(self._n_clusters))] if self._probabilities else []

    def _empty(self) -> Any:
        import pyarrow as pa

        return pa.RecordBatch.from_pylist([], schema=self.schema)

    def _rows(self, table: Any) -> Any:
        """The columns of the model, in the form that the library reads."""
        names = self._names
        if names is None:
            aside = [j for j, name in enumerate(table.column_names) if name not in self._keep]
            if len(aside) != self._n_columns:
                raise ValueError(f"there are {len(aside)} columns, but the model was fitted on {self._n_columns} without names")
            table, names = table.select(aside), [""] * self._n_columns
        else:
            missing = [name for name in names if name not in table.column_names]
            if missing:
                shown = ", ".join(f"`{name}`" for name in missing[:5])
                raise ValueError(f"columns that the model was fitted on are missing: {shown}")
            table = table.select(names)
        if self._is_typed:
            frame = ArrowFrame(table, table)
            return [frame.column(j, name) for j, name in enumerate(names)]
        return dense_rows(np.column_stack([column.to_numpy() for column in table.columns]))

    def _model(self) -> _core.Model:
        """The model, which this process loads once."""
        if self._path is None:
            given = self._bytes or b""
            key: tuple[Any, ...] = ("bytes", hashlib.sha256(given).digest())
        else:
            about = os.stat(self._path)
            key = (os.path.abspath(self._path), about.st_mtime_ns, about.st_size)
        if key not in _LOADED:
            while len(_LOADED) >= _MOST_LOADED:
                del _LOADED[next(iter(_LOADED))]
            _LOADED[key] = _core.Model(self._bytes or b"") if self._path is None else _core.Model.load(self._path)
        return _LOADED[key]


def _arrow_types() -> dict[str, Any]:
    """The types of kept columns: Spark's words, and what pyarrow has for them."""
    import pyarrow as pa

    return {
        "string": pa.string(), "bigint": pa.int64(), "int": pa.int32(), "smallint": pa.int16(), "tinyint": pa.int8(),
        "double": pa.float64(), "float": pa.float32(), "boolean": pa.bool_(), "date": pa.date32(), "binary": pa.binary(),
        "timestamp": pa.timestamp("us", "UTC"), "timestamp_ntz": pa.timestamp("us"),
    }  # fmt: skip


def _quoted(name: str) -> str:
    """A name for Spark: between back quotes unless it is plain."""
    return name if name.isidentifier() and name.isascii() else "`" + name.replace("`", "``") + "`"
