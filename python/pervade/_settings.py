"""Conversion between an estimator's parameters and the library's settings."""

from __future__ import annotations

import json
import math
import warnings
from collections.abc import Mapping
from numbers import Integral, Real
from typing import Any, NamedTuple

from joblib import effective_n_jobs, parallel_config
from sklearn.utils import check_random_state
from threadpoolctl import threadpool_info

from pervade import _core

# Settings whose parameter is named as in scikit-learn.
PARAMETERS = dict(_core.parameters())
SETTINGS = {parameter: setting for setting, parameter in PARAMETERS.items()}
# Parameters that are not settings: how to compute, and what the rows are.
AROUND = frozenset(
    {
        "device", "precision", "n_jobs", "verbose", "callback", "image_shape", "column_types", "keep_columns", "missing",
        "missing_informative",
    }  # fmt: skip
)
# The largest seed that is drawn; any up to 2**64 - 1 can be given.
MAX_SEED = 2**31 - 1


class ComputeOptions(NamedTuple):
    """Device, precision and number of threads."""

    device: str
    precision: str
    threads: int


class ColumnOptions(NamedTuple):
    """What the user said about columns: names that are not part of the rows, types, which to keep, words for gaps, and whether gaps
    mean something."""

    names: list[str] | None
    types: list[tuple[str, str]]
    keep: list[str]
    missing: list[str]
    missing_informative: bool


def as_column_options(parameters: dict[str, Any]) -> ColumnOptions:
    """The options for columns among the parameters."""
    types, keep, missing = (parameters[name] for name in ("column_types", "keep_columns", "missing"))
    if types is not None and not isinstance(types, Mapping):
        raise ValueError(f'`column_types` is {types!r}, must be a dict such as {{"age": "count"}}')
    for name, value in (("keep_columns", keep), ("missing", missing)):
        if isinstance(value, str):
            raise ValueError(f"`{name}` is {value!r}, must be a list such as [{value!r}]")
    informative = parameters["missing_informative"]
    if informative not in (True, False):
        raise ValueError(f"`missing_informative` is {informative!r}, must be True or False")
    given = [(str(name), str(kind)) for name, kind in (types or {}).items()]
    return ColumnOptions(
        None, given, [str(name) for name in keep or ()], [str(word) for word in missing or ()], bool(informative)
    )


def as_settings(parameters: dict[str, Any]) -> str:
    """The settings for the given parameters, as JSON; `None` means the value of the recipe."""
    for name, value in parameters.items():
        if isinstance(value, Real) and not isinstance(value, Integral) and not math.isfinite(value):
            raise ValueError(f"`{name}` is {value}, must be a finite number")
    clusters = parameters["n_clusters"]
    if clusters != "auto" and (isinstance(clusters, bool) or not isinstance(clusters, Integral) or clusters < 1):
        raise ValueError(f"`n_clusters` is {clusters!r}, must be a whole number of at least 1, or 'auto'")
    given = {SETTINGS.get(name, name): value for name, value in parameters.items() if name not in AROUND}
    given["seed"] = as_seed(parameters["random_state"])
    components = given["components"]
    if isinstance(clusters, Integral) and isinstance(components, Integral) and components < clusters:
        warnings.warn(
            f"n_components is {components}, but each of the {clusters} clusters needs one: using {clusters}",
            stacklevel=4,
        )
        given["components"] = clusters
    kept = {name: value for name, value in given.items() if value is not None}
    return json.dumps(kept, default=plain, allow_nan=False)


def as_image(shape: Any, n_features: int) -> tuple[int, int, int] | None:
    """Height, width and channels of images with this many values."""
    if shape is None:
        return None
    sizes = tuple(shape) if isinstance(shape, (tuple, list)) else ()
    whole = all(isinstance(size, Integral) and int(size) > 0 for size in sizes)
    if not whole or len(sizes) not in (2, 3) or sizes[2:] not in ((), (1,), (3,)):
        raise ValueError(f"`image_shape` is {shape!r}, must be like (28, 28) or (32, 32, 3)")
    height, width, channels = (*(int(size) for size in sizes), 1)[:3]
    if height * width * channels != n_features:
        raise ValueError(
            f"`image_shape` is {shape!r}, which is {height * width * channels} values, but the rows have {n_features}"
        )
    return height, width, channels


def as_parameters(settings: dict[str, Any]) -> dict[str, Any]:
    """The parameters that differ from the recipe's values."""
    usual = json.loads(_core.settings(settings["recipe"]))
    named = ("clusters", "recipe", "seed")
    return {
        PARAMETERS.get(name, name): tuple(value) if isinstance(value, list) else value
        for name, value in settings.items()
        if name in named or value != usual.get(name)
    }


def as_seed(random_state: Any) -> int:
    """A seed: the number itself, or one drawn from a generator."""
    if isinstance(random_state, Integral):
        return int(random_state)
    return int(check_random_state(random_state).randint(MAX_SEED))


def as_threads(n_jobs: int | None) -> int:
    """How many threads to use.

    `None` means as many as OpenMP would use now, so that `OMP_NUM_THREADS`, the limits of `threadpoolctl`
    and those that joblib sets for its workers apply here too.
    """
    limits = [pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "openmp"]
    if n_jobs is None and limits:
        return int(min(limits))
    # In this process, whatever is configured for joblib: Dask would count the cores of its cluster.
    with parallel_config(backend="threading"):
        return int(effective_n_jobs(-1 if n_jobs is None else n_jobs))


def plain(value: Any) -> Any:
    """NumPy's numbers and arrays as Python's, for JSON."""
    if hasattr(value, "tolist"):
        return value.tolist()
    raise TypeError(f"{value!r} is a {type(value).__name__}, which no setting is")
