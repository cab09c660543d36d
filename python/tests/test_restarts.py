"""Restarts on workers of joblib: the result is that of one process, to the byte."""

import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
import warnings
from contextlib import contextmanager

import joblib
import numpy as np
import pandas as pd
import pytest
from common import FIT_AND_TELL, seconds_to_interrupt
from joblib import delayed, parallel_config
from scipy import sparse
from sklearn.exceptions import NotFittedError
from threadpoolctl import threadpool_limits

from pervade import _core, _restarts
from pervade._settings import as_threads

LOCAL = ["loky", "threading"]


@contextmanager
def workers(backend):
    """Two workers of the backend; skips the test where it is not installed."""
    if backend == "dask":
        distributed = pytest.importorskip("distributed", reason="dask is not installed")
        with (
            distributed.LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None) as cluster,
            distributed.Client(cluster),
            parallel_config(backend="dask"),
        ):
            yield
    elif backend == "ray":
        ray = pytest.importorskip("ray", reason="ray is not installed")
        from ray.util.joblib import register_ray

        register_ray()
        ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False)
        try:
            with parallel_config(backend="ray", n_jobs=2):
                yield
        finally:
            ray.shutdown()
    else:
        with parallel_config(backend=backend, n_jobs=2):
            yield


def mixed_table():
    """Numbers, a category and gaps."""
    rng = np.random.default_rng(0)
    n = 300
    cluster = rng.integers(0, 3, n)
    a, b = (rng.normal(0, 1, n) + 4 * cluster for _ in range(2))
    b[::17] = np.nan
    kind = np.array(["red", "green", "blue"])[(cluster + (rng.random(n) < 0.2)) % 3]
    return pd.DataFrame({"a": a, "kind": kind, "b": b})


@pytest.fixture(params=["dense", "sparse", "mixed"])
def X(request, rows):
    if request.param == "mixed":
        return mixed_table()
    return rows if request.param == "dense" else sparse.csr_matrix(np.where(rows > 0, rows, 0))


def outcome(vade, X):
    """Everything public that a fit leaves, the bytes of the model, and its warnings."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        vade.fit(X)
    fitted = {name: value for name, value in vars(vade).items() if name.endswith("_") and not name.startswith("_")}
    assert {"labels_", "agreement_", "lower_bound_", "n_iter_", "stability_", "history_"} <= fitted.keys()
    fitted["bytes"] = vade._model.to_bytes()
    fitted["rows for the card"] = vars(vade._some_rows)
    fitted["warnings"] = [(warning.category, str(warning.message)) for warning in caught]
    return fitted


def same(one, other):
    assert one.keys() == other.keys()
    for name, value in one.items():
        np.testing.assert_equal(other[name], value, err_msg=name)
    return True


def test_every_table_gives_the_result_of_one_process(small, X):
    # So few epochs that there is something to remark.
    alone = outcome(small(n_init=3, epochs=1), X)
    for backend in LOCAL:
        events = []
        with workers(backend):
            assert same(alone, outcome(small(n_init=3, epochs=1, callback=events.append), X))
        ended = [event for event in events if event["event"] == "restart-ended"]
        assert sorted(event["restart"] for event in ended) == [0, 1, 2], "workers have trained them"
        assert [event["done"] for event in ended] == [1, 2, 3]


@pytest.mark.parametrize("backend", ["dask", "ray"])
def test_clusters_of_machines_give_the_result_of_one_process(small, rows, backend):
    tables = [rows, mixed_table()]
    alone = [outcome(small(n_init=3), X) for X in tables]
    with workers(backend):
        events = []
        for wanted, X in zip(alone, tables, strict=True):
            assert same(wanted, outcome(small(n_init=3, callback=events.append), X))
        assert sum(event["event"] == "restart-ended" for event in events) == 6
        with pytest.raises(ValueError) as raised:
            small(n_init=3, likelihood="bernoulli").fit(rows - 1000)
    with pytest.raises(ValueError) as expected:
        small(n_init=3, likelihood="bernoulli").fit(rows - 1000)
    assert type(raised.value) is type(expected.value) and str(raised.value) == str(expected.value)


@pytest.mark.parametrize("settings", [{"choose": "elbo"}, {"n_clusters": "auto"}, {"starts": 2}, {"n_init": 2}])
def test_other_choices_give_the_result_of_one_process(small, rows, settings):
    settings = {"n_init": 3, **settings}
    alone = outcome(small(**settings), rows)
    with workers("threading"):
        assert same(alone, outcome(small(**settings), rows))


def test_no_workers_unless_they_are_asked_for(small, rows):
    def kinds(**parameters):
        seen = []
        small(callback=lambda event: seen.append(event["event"]), **parameters).fit(rows)
        return seen

    alone = kinds(n_init=3)
    assert "restart-ended" not in alone and "pretrained" in alone
    for configuration in ({"backend": "loky", "n_jobs": 1}, {"backend": "loky"}, {"n_jobs": 1}):
        with parallel_config(**configuration):
            assert "restart-ended" not in kinds(n_init=3)
    with parallel_config(backend="threading", n_jobs=2):
        assert "restart-ended" not in kinds(n_init=1)
        spread = kinds(n_init=3)
    assert spread[0] == "restarts-started" and spread.count("restart-ended") == 3
    assert "pretrained" not in spread, "workers do not call back"
    assert "trained" in spread, "the model of all restarts is trained here"


def test_the_description_comes_before_training(small):
    with workers("threading"):
        kinds = kinds_of_events(small(n_init=3), mixed_table())
    assert kinds[:3] == ["described", "restarts-started", "restart-ended"] and kinds.count("described") == 1


def kinds_of_events(vade, rows):
    seen = []
    vade.set_params(callback=lambda event: seen.append(event["event"])).fit(rows)
    return seen


@pytest.mark.parametrize("backend", LOCAL)
def test_a_fit_in_a_worker_stays_there(small, rows, backend):
    with workers(backend):
        both = joblib.Parallel()(delayed(kinds_of_events)(small(n_init=2), rows) for _ in range(2))
    assert all("restart-ended" not in kinds and "pretrained" in kinds for kinds in both)


def test_workers_divide_the_threads(small, rows, monkeypatch):
    used = []
    train = _core.train_restart

    def recorded(table, settings, options, *others, **named):
        used.append(options.threads)
        return train(table, settings, options, *others, **named)

    monkeypatch.setattr(_restarts._core, "train_restart", recorded)
    with parallel_config(backend="threading", n_jobs=2):
        small(n_init=3).fit(rows)
        assert used == [max(as_threads(None) // 2, 1)] * 3
        used.clear()
        small(n_init=3, n_jobs=3).fit(rows)
        assert used == [3] * 3
        used.clear()
        with threadpool_limits(1):
            small(n_init=3).fit(rows)
        assert used == [1] * 3
    with parallel_config(backend="loky", n_jobs=2):
        limits = joblib.Parallel()(delayed(as_threads)(None) for _ in range(2))
    assert limits == [max(joblib.cpu_count() // 2, 1)] * 2


def test_mapped_rows_are_read_in_place(small, rows, tmp_path):
    tall = np.tile(rows, (300, 1)) + np.random.default_rng(0).normal(0, 0.01, (60_000, 5)).astype(np.float32)
    np.save(tmp_path / "x.npy", tall)
    mapped = np.load(tmp_path / "x.npy", mmap_mode="r")
    few = {"n_init": 2, "pretrain_epochs": 1, "epochs": 1, "graph_rows": 500, "n_components": 3, "mixture_starts": 1}
    alone = outcome(small(**few), mapped)
    with workers("loky"):
        assert same(alone, outcome(small(**few), mapped))
        # Larger than a megabyte: joblib maps it for its workers, read-only.
        assert same(alone, outcome(small(**few), tall))


def test_rows_at_any_address(rows):
    shifted = np.frombuffer(b"." + rows.tobytes(), np.float32, offset=1).reshape(rows.shape)
    assert not shifted.flags.aligned
    found = _restarts.aligned(shifted)
    assert found.flags.aligned and np.array_equal(found, rows)
    assert _restarts.aligned(rows) is rows
    starts, n_columns = _restarts.aligned((np.arange(3), 7))
    assert n_columns == 7 and starts.tolist() == [0, 1, 2]


@pytest.mark.parametrize("backend", LOCAL)
def test_errors_of_workers_are_those_of_the_fit(small, rows, backend):
    bad = rows.copy()
    bad[3, 2] = np.inf
    cases = [
        (small(n_init=3), bad),
        (small(n_init=3, n_clusters=1000), rows),
        (small(n_init=3), np.ones((50, 3), np.float32)),
    ]
    for vade, X in cases:
        with pytest.raises(ValueError) as expected:
            vade.fit(X)
        with workers(backend), warnings.catch_warnings(), pytest.raises(ValueError) as raised:
            warnings.simplefilter("error")  # joblib would advise its callers
            vade.fit(X)
        assert type(raised.value) is type(expected.value) and str(raised.value) == str(expected.value)
        with pytest.raises(NotFittedError):
            vade.predict(rows)


@pytest.mark.parametrize("backend", LOCAL)
def test_a_worker_without_memory(small, rows, backend):
    with workers(backend), pytest.raises(MemoryError, match="training needs about .* TB of memory .*\nhint: lower `hidden`"):
        small(n_init=3, hidden=(1 << 16,) * 64).fit(rows)


def test_an_exception_of_the_callback_ends_the_fit(small, rows):
    def tell(event):
        if event["event"] == "restart-ended":
            raise LookupError("enough")

    n_threads = threading.active_count()
    with workers("threading"), pytest.raises(LookupError, match="enough"):
        small(n_init=50, callback=tell, pretrain_epochs=500).fit(rows)
    # Restarts in training notice it within a moment.
    deadline = time.monotonic() + 10
    while threading.active_count() > n_threads and time.monotonic() < deadline:
        time.sleep(0.05)
    assert threading.active_count() <= n_threads


def test_restarts_of_another_fit_are_refused(small, rows):
    with pytest.raises(ValueError, match="not a whole trained restart"):
        _core.fit(rows, '{"clusters": 3}', small()._compute_options(), columns(), restarts=[b"nothing"])
    settings = '{"clusters": 3, "hidden": [4], "pretrain_epochs": 1, "epochs": 1, "restarts": 2, "seed": %d}'
    options = small()._compute_options()
    trained = [_core.train_restart(rows, settings % 0, options, columns(), restart) for restart in range(2)]
    with pytest.raises(ValueError, match="`seed` was 0, here it is 1"):
        _core.fit(rows, settings % 1, options, columns(), restarts=trained)
    with pytest.raises(ValueError, match="`checksum of the rows` was"):
        _core.fit(rows + 1, settings % 0, options, columns(), restarts=trained)
    with pytest.raises(ValueError, match="`restart 1`: it is missing"):
        _core.fit(rows, settings % 0, options, columns(), restarts=trained[:1])


def columns():
    return _restarts.ColumnOptions(None, [], [], [], False)


def test_progress_of_workers_is_shown(small, rows, capsys, monkeypatch):
    with workers("threading"):
        small(n_init=3, verbose=1).fit(rows)
        assert "restarts: 100%" in capsys.readouterr().err
        monkeypatch.setitem(sys.modules, "tqdm.auto", None)
        small(n_init=3, verbose=1).fit(rows)
    lines = capsys.readouterr().err.splitlines()
    assert lines[:4] == [
        "3 restarts, trained by workers of joblib", "restarts: 1 of 3", "restarts: 2 of 3", "restarts: 3 of 3",
    ]  # fmt: skip
    assert any(line.startswith("joint training") for line in lines)


FIT = """
import sys, time
import joblib
import numpy as np
from sklearn.exceptions import NotFittedError
from pervade import VaDE
X = np.random.default_rng(0).random((30_000, 100), dtype=np.float32)
vade = VaDE(8, random_state=0, device="cpu", hidden=(500, 500, 2000), n_init=6)
joblib.parallel_config(backend=sys.argv[1], n_jobs=2)
# Workers are ready once they have trained something.
VaDE(2, hidden=(4,), pretrain_epochs=1, epochs=1, n_init=2, device="cpu").fit(X[:100])
print("fitting", flush=True)
""" + FIT_AND_TELL + """
vade.set_params(hidden=(4,), latents=2, epochs=1, pretrain_epochs=1, n_components=8, mixture_starts=1, n_init=2)
print(vade.fit(X[:300]).labels_.shape, flush=True)
"""


@pytest.mark.skipif(os.name == "nt", reason="signals of this kind are Unix's")
@pytest.mark.parametrize("backend", LOCAL)
def test_ctrl_c(backend):
    # Retried once, in case the machine is busy.
    assert interrupted(backend) < 5 or interrupted(backend) < 5


def interrupted(backend):
    """Seconds from Ctrl-C, which a terminal sends to all processes of the command, to the exception."""
    with tempfile.TemporaryFile("w+") as errors:
        child = subprocess.Popen(
            [sys.executable, "-c", FIT, backend], stdout=subprocess.PIPE, stderr=errors, text=True, start_new_session=True
        )
        if child.stdout.readline().strip() != "fitting":
            errors.seek(0)
            pytest.fail(f"the script ended with {child.wait()}: {errors.read()}")
    time.sleep(3.0)
    return seconds_to_interrupt(child, lambda: os.killpg(child.pid, signal.SIGINT), "unfitted", "(300,)")
