"""Model files, pickle and the command give the same model."""

import copy
import pickle
import subprocess
import sys

import joblib
import numpy as np
import pytest
from sklearn.exceptions import NotFittedError

from pervade import VaDE, __version__
from pervade._core import Model


def command(*arguments, **options):
    """Runs `python -m pervade`."""
    return subprocess.run(
        [sys.executable, "-m", "pervade", *map(str, arguments)], capture_output=True, text=True, **options
    )


FLAGS = [
    *("--hidden", "16", "--latents", "2", "--pretrain-epochs", "20", "--mixture-starts", "2"),
    *("--epochs", "2", "--seed", "0", "--device", "cpu"),
]  # fmt: skip


@pytest.mark.parametrize("dtype", [np.uint8, np.float16, np.float32, np.float64, np.int64])
def test_the_command_and_python_write_the_same_bytes(small, tmp_path, dtype):
    X = np.random.default_rng(0).integers(0, 200, (90, 6)).astype(dtype)
    np.save(tmp_path / "x.npy", X)
    done = command("fit", tmp_path / "x.npy", "-k", 3, "--out", tmp_path / "c.pervade", *FLAGS)
    assert done.returncode == 0, done.stderr
    vade = small().fit(X)
    vade.save(tmp_path / "p.pervade")
    assert (tmp_path / "c.pervade").read_bytes() == (tmp_path / "p.pervade").read_bytes()


def test_the_command_uses_models_of_python_and_vice_versa(small, rows, tmp_path):
    np.save(tmp_path / "x.npy", rows)
    mine = small().fit(rows)
    mine.save(tmp_path / "p.pervade")
    assert command("fit", tmp_path / "x.npy", "-k", 3, "--out", tmp_path / "c.pervade", *FLAGS).returncode == 0
    theirs = VaDE.load(tmp_path / "c.pervade", device="cpu")
    for vade, model in ((mine, "p.pervade"), (theirs, "c.pervade")):
        done = command("assign", tmp_path / model, tmp_path / "x.npy", "--probabilities", "--out", tmp_path / "a.csv")
        assert done.returncode == 0, done.stderr
        found = np.loadtxt(tmp_path / "a.csv", delimiter=",", skiprows=1, dtype=np.float32)
        header = (tmp_path / "a.csv").read_text().splitlines()[0].split(",")
        np.testing.assert_array_equal(found[:, header.index("cluster")], vade.predict(rows))
        np.testing.assert_array_equal(found[:, -3:].tobytes(), vade.predict_proba(rows).tobytes())
        assert command("embed", tmp_path / model, tmp_path / "x.npy", "--out", tmp_path / "z.npy").returncode == 0
        assert np.load(tmp_path / "z.npy").tobytes() == vade.transform(rows).tobytes()
    assert command("generate", tmp_path / "p.pervade", "--count", 9, "--seed", 0, "--out", tmp_path / "g.npy").returncode == 0
    # The command writes cells in double precision.
    np.testing.assert_array_equal(np.load(tmp_path / "g.npy").astype(np.float32), np.asarray(mine.sample(9)[0], np.float32))


def same(a, b, rows):
    assert a._model.to_bytes() == b._model.to_bytes()
    np.testing.assert_array_equal(a.predict_proba(rows), b.predict_proba(rows))
    for name in ("weights_", "means_", "covariances_", "component_labels_"):
        np.testing.assert_array_equal(getattr(a, name), getattr(b, name))
    for name in ("history_", "n_iter_", "modularity_", "n_features_in_", "n_clusters_"):
        assert getattr(a, name) == getattr(b, name)


def test_round_trips_change_nothing(small, rows, tmp_path):
    vade = small(n_init=2).fit(rows)
    for again in (pickle.loads(pickle.dumps(vade)), copy.deepcopy(vade), copy.copy(vade)):
        same(vade, again, rows)
        np.testing.assert_array_equal(vade.labels_, again.labels_)
        assert again.lower_bound_ == vade.lower_bound_
        assert again.get_params() == vade.get_params()
    joblib.dump(vade, tmp_path / "v.joblib")
    same(vade, joblib.load(tmp_path / "v.joblib"), rows)
    vade.save(tmp_path / "v.pervade")
    loaded = VaDE.load(tmp_path / "v.pervade", device="cpu")
    same(vade, loaded, rows)
    assert loaded.get_params() == vade.get_params()
    assert not hasattr(loaded, "labels_") and not hasattr(loaded, "lower_bound_")
    loaded.save(tmp_path / "w.pervade")
    assert (tmp_path / "w.pervade").read_bytes() == (tmp_path / "v.pervade").read_bytes()


def test_workers_of_joblib(small, rows):
    vade = small().fit(rows)
    parts = joblib.Parallel(n_jobs=2)(joblib.delayed(vade.predict)(part) for part in np.array_split(rows, 4))
    np.testing.assert_array_equal(np.concatenate(parts), vade.labels_)


def test_column_names_are_saved(small, rows, tmp_path):
    import pandas as pd

    frame = pd.DataFrame(rows, columns=list("abcde"))
    small().fit(frame).save(tmp_path / "v.pervade")
    loaded = VaDE.load(tmp_path / "v.pervade")
    assert list(loaded.feature_names_in_) == list("abcde")
    with pytest.raises(ValueError, match="feature names should match"):
        loaded.predict(frame.rename(columns={"a": "z"}))
    frame.to_csv(tmp_path / "x.csv", index=False)
    assert command("assign", tmp_path / "v.pervade", tmp_path / "x.csv").returncode == 0


def test_unfitted_estimators_cannot_be_saved(small, tmp_path):
    with pytest.raises(NotFittedError):
        small().save(tmp_path / "v.pervade")
    assert not (tmp_path / "v.pervade").exists()


def test_files_that_are_not_models_are_refused(tmp_path):
    with pytest.raises(FileNotFoundError, match="cannot read"):
        VaDE.load(tmp_path / "missing.pervade")
    (tmp_path / "x.pervade").write_bytes(b"not a model")
    with pytest.raises(ValueError, match="not a pervade model"):
        VaDE.load(tmp_path / "x.pervade")
    with pytest.raises(ValueError, match="not a pervade model"):
        Model(b"")
    with pytest.raises(OSError, match="cannot"):
        vade = VaDE(2, hidden=(4,), latents=1, pretrain_epochs=1, epochs=1, device="cpu", random_state=0)
        vade.fit(np.eye(8)).save(tmp_path / "no" / "such" / "folder.pervade")


def test_the_command():
    done = command("--version")
    assert done.returncode == 0 and done.stdout.strip() == f"pervade {__version__}"
    done = command("fit", "no-such-file.npy", "-k", 3)
    assert done.returncode == 2 and "no-such-file.npy" in done.stderr
    assert command("nonsense").returncode == 2
    script = subprocess.run(["pervade", "--help"], capture_output=True, text=True, check=False, env=None)
    assert script.returncode == 0 and "pervade demo" in script.stdout


def test_the_command_starts_without_numpy_and_scikit_learn():
    heavy = "import sys; import pervade.__main__; print({'numpy', 'sklearn', 'scipy'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", heavy], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"


def test_what_the_package_offers():
    names = "import pervade; print(set(pervade.__all__) <= set(dir(pervade)), pervade.VaDE.__name__, hasattr(pervade, 'nonsense'))"
    done = subprocess.run([sys.executable, "-c", names], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["True", "VaDE", "False"]
