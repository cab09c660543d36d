"""Restarts on the workers of joblib, where `joblib.parallel_config` asks for several: processes, threads, Dask or Ray."""

from __future__ import annotations

import itertools
import json
import os
import uuid
import warnings
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from joblib import Parallel, delayed, effective_n_jobs
from joblib.parallel import get_active_backend

from pervade import _core
from pervade._input import IN_PLACE
from pervade._settings import ColumnOptions, ComputeOptions, as_threads

if TYPE_CHECKING:
    from pervade._core import _Table

# Fits of this process that have ended, some of whose restarts may still be in training in other threads.
_ENDED: set[int] = set()
_IDS = itertools.count()
# Processes of several machines may have the same number, and one that is forked has the module's names.
_MODULE = uuid.uuid4().hex


class Work(NamedTuple):
    """What is the same for all restarts of a fit, beside the table."""

    settings: str
    options: ComputeOptions
    columns: ColumnOptions
    image: tuple[int, int, int] | None


class Leader(NamedTuple):
    """The fit that the restarts are for: its process, its number there, how many workers it has, and its `n_jobs`."""

    process: str
    number: int
    n_workers: int
    n_jobs: int | None


def this_process() -> str:
    """The name of this process, which no other has on any machine."""
    return f"{os.getpid()} {_MODULE}"


class Stopped(Exception):
    """The fit has ended that a restart was trained for."""


def train_on_workers(
    rows: _Table, n_init: int, work: Work, n_jobs: int | None, on_event: Callable[[str], None] | None
) -> list[bytes] | None:
    """The restarts, each trained by a worker of joblib; None if they are to be trained in this process.

    CUDA trains all restarts in parallel anyway, and rounds differently if they are trained apart.
    """
    backend, _ = get_active_backend()
    as_they_end = getattr(backend, "supports_return_generator", False)
    parallel = Parallel(batch_size=1, return_as="generator_unordered" if as_they_end else "list")
    if parallel.n_jobs == 1:
        return None
    uses_cpu, description = _core.check(rows, work.settings, work.options, work.columns, image=work.image)
    if not uses_cpu:
        return None
    work = work._replace(options=work.options._replace(device="cpu"))
    number = next(_IDS)
    send = _sender(on_event)
    if description is not None:
        send({"event": "described", "description": description})
    send({"event": "restarts-started", "restarts": n_init})
    trained: list[bytes] = []
    # Within the context the backend is ready.
    with parallel:
        leader = Leader(this_process(), number, min(effective_n_jobs(parallel.n_jobs), n_init), n_jobs)
        results: Any = ()
        try:
            results = parallel(delayed(train)(rows, work, restart, leader) for restart in range(n_init))
            for restart, result in results:
                if isinstance(result, Exception):
                    raise result
                trained.append(result)
                send({"event": "restart-ended", "restart": restart, "done": len(trained), "restarts": n_init})
        finally:
            _ENDED.add(number)
            give_up(results)
    return trained


def train(rows: _Table, work: Work, restart: int, leader: Leader) -> tuple[int, bytes | Exception]:
    """Trains one restart, in a worker. An exception is returned, since some backends would raise another one instead."""
    is_here = this_process() == leader.process
    if not is_here:
        threads = as_threads(leader.n_jobs)
    elif leader.n_jobs is None:
        threads = max(work.options.threads // leader.n_workers, 1)
    else:
        threads = work.options.threads

    def on_event(_: str) -> None:
        if leader.number in _ENDED:
            raise Stopped

    try:
        return restart, _core.train_restart(
            aligned(rows),
            work.settings,
            work.options._replace(threads=threads),
            work.columns,
            restart,
            image=work.image,
            on_event=on_event if is_here else None,
        )
    except Exception as error:
        return restart, error


def give_up(results: Any) -> None:
    """Ends the restarts that are still in training; joblib's advice to its callers about them would only confuse."""
    if hasattr(results, "close"):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)
            results.close()


def aligned(rows: Any) -> Any:
    """Rows in the form that the library reads: arrays that arrived by a network may begin at any address."""
    if isinstance(rows, np.ndarray):
        return np.require(rows, requirements=IN_PLACE)
    if isinstance(rows, list):
        return [column._replace(values=aligned(column.values)) for column in rows]
    return tuple(aligned(part) if isinstance(part, np.ndarray) else part for part in rows)


def _sender(on_event: Callable[[str], None] | None) -> Callable[[dict[str, Any]], None]:
    """Sends events of this module to the listener, as the library does."""
    return lambda event: None if on_event is None else on_event(json.dumps(event))
