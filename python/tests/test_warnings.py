"""Remarks are issued as `FitWarning`, and scores are those of the kept model."""

import pickle
import struct
import warnings

import numpy as np
import pytest

import pervade
from pervade import FitWarning, VaDE


def without_checksum(data):
    """The bytes of a model file as an earlier version wrote them."""
    entry = b',\\"checksum\\":\\"xxh3-128:'
    at, length = data.index(entry), len(entry) + 32 + 2
    end = 8 + struct.unpack("<Q", data[:8])[0]
    return data[:at] + data[at + length : end] + b" " * length + data[end:]


def remarks(recorded):
    return [str(w.message) for w in recorded if w.category is FitWarning]


@pytest.fixture
def collapsed(small, rows):
    """An estimator whose clusters do not all hold rows: two far rows are not half a percent of 600."""
    X = np.repeat(rows, 3, axis=0)
    X[0] += 500
    X[1] -= 500
    return small(5, n_components=5, prepare="none", hidden=(16,), epochs=4, keep="last", n_init=1), X


def test_the_class():
    assert issubclass(FitWarning, UserWarning) and "FitWarning" in pervade.__all__


def test_collapse_is_a_warning(collapsed):
    vade, X = collapsed
    with warnings.catch_warnings(record=True) as recorded:
        warnings.simplefilter("always")
        vade.fit(X)
    texts = remarks(recorded)
    live = vade.history_["states"][vade.history_["kept"]]
    assert live["live_clusters"] < live["clusters"], "the test needs clusters that collapse"
    assert set(vade.history_["remarks"]) <= set(texts) and len(texts) == len(set(texts))
    assert any("clusters hold half a percent" in text for text in texts)
    assert all(w.filename == __file__ for w in recorded if w.category is FitWarning)


def test_warnings_can_be_errors_or_silent(collapsed):
    vade, X = collapsed
    with warnings.catch_warnings():
        warnings.simplefilter("error", FitWarning)
        with pytest.raises(FitWarning, match="clusters"):
            vade.fit(X)
    # The fit itself was completed.
    assert vade.labels_.shape == (600,)


def start_kept(small, rows):
    """A fit that keeps its mixture start: joint training at such a rate only makes it worse. With a column of zeros and
    ones, no plain mixture is tried instead."""
    X = np.column_stack([rows, rows[:, 0] > np.median(rows[:, 0])])
    vade = small(3, epochs=6, learning_rate=1.0, mixture_learning_rate=1.0, pretrain_epochs=60, hidden=(32,))
    with warnings.catch_warnings(record=True) as recorded:
        warnings.simplefilter("always")
        vade.fit(X)
    assert vade.history_["states"][vade.history_["kept"]]["epoch"] == 0, "the test needs a start that is kept"
    return vade, X, remarks(recorded)


def test_the_lower_bound_is_that_of_the_kept_model(small, rows):
    vade, X, texts = start_kept(small, rows)
    assert vade.lower_bound_ == pytest.approx(vade.score(X), rel=1e-6)
    assert vade.lower_bound_ != pytest.approx(vade.history_["joint"][-1]["elbo"], rel=1e-3)
    assert any("the model is the mixture start" in text for text in texts)


def test_a_plain_mixture_is_named(small, rows):
    with pytest.warns(FitWarning, match="the clusters are those of .* on the rows"):
        vade = small(epochs=1, pretrain_epochs=1).fit(rows)
    assert vade.lower_bound_ == pytest.approx(vade.score(rows), rel=1e-6)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_the_lower_bound_is_the_score_of_the_rows(small, rows, dtype):
    X = np.tile(rows.astype(dtype), (60, 1))  # more than one part
    vade = small(epochs=1, pretrain_epochs=1, keep="last", graph_rows=500, mixture_starts=1, batch=1000, pretrain_batch=1000).fit(X)
    assert vade.lower_bound_ == pytest.approx(vade.score(X), rel=1e-6)


def test_older_models_are_loaded_with_a_warning(small, rows, tmp_path):
    vade = small().fit(rows)
    vade.save(tmp_path / "v.pervade")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        loaded = VaDE.load(tmp_path / "v.pervade", device="cpu")
    assert not hasattr(loaded, "lower_bound_")
    (tmp_path / "old.pervade").write_bytes(without_checksum((tmp_path / "v.pervade").read_bytes()))
    with pytest.warns(FitWarning, match="has no checksum .written by an earlier version of pervade"):
        older = VaDE.load(tmp_path / "old.pervade", device="cpu")
    np.testing.assert_array_equal(older.predict(rows), vade.labels_)
    assert older._model.to_bytes() == vade._model.to_bytes()
    # No warning for estimators that were fitted here.
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        pickle.loads(pickle.dumps(vade))
        pickle.loads(pickle.dumps(small()))


def test_damaged_models_are_refused(small, rows, tmp_path):
    small().fit(rows).save(tmp_path / "v.pervade")
    data = bytearray((tmp_path / "v.pervade").read_bytes())
    data[-40] ^= 1
    (tmp_path / "v.pervade").write_bytes(data)
    with pytest.raises(ValueError, match="the file is damaged: its checksum does not match its content"):
        VaDE.load(tmp_path / "v.pervade")


FLOATS = ["noise_variance", "learning_rate", "mixture_learning_rate", "decay", "learning_rate_floor", "epsilon",
          "pretrain_learning_rate", "dropout"]  # fmt: skip


@pytest.mark.parametrize("name", FLOATS)
@pytest.mark.parametrize("value", [float("nan"), float("inf"), np.float32("nan"), np.float64("-inf"), 1e39, 1e-60])
def test_numbers_that_cannot_be_used_are_refused_by_name(small, rows, name, value):
    with pytest.raises(ValueError, match=f"`{name}` is"):
        small(**{name: value}).fit(rows)


def test_rows_that_overflow_are_named(small, rows):
    vade = small(prepare="standardise").fit(rows * np.float32(1e-3))  # scaled up by more than 100
    X = np.tile(rows, (50, 1))
    X[9000] = 3e38
    for use in (vade.predict, vade.predict_proba, vade.transform):
        with pytest.raises(ValueError, match="row 9001 is beyond what the model can compute"):
            use(X)
    assert vade.score_samples(X)[9000] == -np.inf
