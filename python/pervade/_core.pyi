from collections.abc import Callable, Sequence
from os import PathLike
from typing import Protocol, TypeAlias, final, type_check_only

import numpy as np
from numpy.typing import NDArray

_Sparse: TypeAlias = tuple[NDArray[np.int64], NDArray[np.int32], NDArray[np.float32], int]

@type_check_only
class _Column(Protocol):
    @property
    def name(self) -> str: ...
    @property
    def kind(self) -> str: ...
    @property
    def values(self) -> NDArray[np.float64]: ...
    @property
    def levels(self) -> list[str]: ...
    @property
    def decimals(self) -> int: ...

_Table: TypeAlias = (
    NDArray[np.uint8] | NDArray[np.float16] | NDArray[np.float32] | NDArray[np.float64] | _Sparse | Sequence[_Column]
)

@type_check_only
class _ColumnOptions(Protocol):
    @property
    def names(self) -> list[str] | None: ...
    @property
    def types(self) -> list[tuple[str, str]]: ...
    @property
    def keep(self) -> list[str]: ...
    @property
    def missing(self) -> list[str]: ...
    @property
    def missing_informative(self) -> bool: ...

@type_check_only
class _ComputeOptions(Protocol):
    @property
    def device(self) -> str: ...
    @property
    def precision(self) -> str: ...
    @property
    def threads(self) -> int: ...

@type_check_only
class _ReportOptions(Protocol):
    @property
    def title(self) -> str: ...
    @property
    def points(self) -> int: ...
    @property
    def labels(self) -> list[int] | list[float] | list[str] | None: ...
    @property
    def kept(self) -> Sequence[_Column]: ...

__all__ = [
    "Model", "__version__", "check", "digits", "fit", "lay_out", "parameters", "run", "settings", "train_restart",
    "write_text",
]  # fmt: skip

__version__: str

def run(arguments: Sequence[str]) -> int: ...
def settings(recipe: str) -> str: ...
def parameters() -> list[tuple[str, str]]: ...
def write_text(path: str | PathLike[str], text: str) -> None: ...
def lay_out(
    latents: NDArray[np.float32], clusters: NDArray[np.int32], options: _ComputeOptions
) -> NDArray[np.float32]: ...
def digits() -> tuple[NDArray[np.float32], NDArray[np.int64]]: ...
def fit(
    table: _Table,
    settings: str,
    options: _ComputeOptions,
    columns: _ColumnOptions,
    *,
    image: tuple[int, int, int] | None = None,
    on_event: Callable[[str], None] | None = None,
    restarts: Sequence[bytes] | None = None,
) -> tuple[
    Model,
    NDArray[np.int32],
    NDArray[np.float32] | None,
    float,
    list[str],
    str | None,
    str | None,
    tuple[NDArray[np.float32], NDArray[np.int32], NDArray[np.float32]],
]: ...
def train_restart(
    table: _Table,
    settings: str,
    options: _ComputeOptions,
    columns: _ColumnOptions,
    restart: int,
    *,
    image: tuple[int, int, int] | None = None,
    on_event: Callable[[str], None] | None = None,
) -> bytes: ...
def check(
    table: _Table,
    settings: str,
    options: _ComputeOptions,
    columns: _ColumnOptions,
    *,
    image: tuple[int, int, int] | None = None,
) -> tuple[bool, str | None]: ...
@final
class Model:
    def __new__(cls, bytes: bytes) -> Model: ...
    @staticmethod
    def load(path: str | PathLike[str]) -> Model: ...
    def save(self, path: str | PathLike[str]) -> None: ...
    def to_bytes(self) -> bytes: ...
    def to_onnx(self, score: bool) -> bytes: ...
    def write_onnx(self, path: str | PathLike[str], score: bool) -> None: ...
    def info(self) -> str: ...
    @property
    def remarks(self) -> list[str]: ...
    @property
    def n_latents(self) -> int: ...
    def components(
        self,
    ) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64], NDArray[np.int32]]: ...
    def assign(
        self, table: _Table, options: _ComputeOptions, *, column_names: Sequence[str] | None = None
    ) -> tuple[NDArray[np.int32], NDArray[np.float32]]: ...
    def embed(
        self, table: _Table, options: _ComputeOptions, *, column_names: Sequence[str] | None = None
    ) -> NDArray[np.float32]: ...
    def score(
        self,
        table: _Table,
        options: _ComputeOptions,
        *,
        kind: str = "score",
        column_names: Sequence[str] | None = None,
    ) -> NDArray[np.float64]: ...
    def impute(
        self, table: _Table, options: _ComputeOptions, *, draw: bool, seed: int, first_row: int = 0
    ) -> tuple[NDArray[np.float64], NDArray[np.bool_]]: ...
    def map(
        self,
        table: _Table,
        options: _ComputeOptions,
        *,
        column_names: Sequence[str] | None = None,
        on_event: Callable[[str], None] | None = None,
    ) -> NDArray[np.float32]: ...
    def describe(
        self,
        table: _Table,
        options: _ComputeOptions,
        *,
        columns: int,
        rows: int,
        column_names: Sequence[str] | None = None,
    ) -> str: ...
    def report(
        self,
        table: _Table,
        options: _ComputeOptions,
        report: _ReportOptions,
        *,
        column_names: Sequence[str] | None = None,
        on_event: Callable[[str], None] | None = None,
    ) -> str: ...
    def text(self, column: int, cells: NDArray[np.float64]) -> list[str]: ...
    def decode(self, latents: NDArray[np.float32], options: _ComputeOptions) -> NDArray[np.float32]: ...
    def generate(
        self, cluster: int | None, count: int, seed: int, options: _ComputeOptions, *, mean: bool
    ) -> tuple[NDArray[np.float32], NDArray[np.int32]]: ...
