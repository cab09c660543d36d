"""Methods and attributes of the estimator."""

import inspect
import json
import re
import threading
import time
import warnings

import numpy as np
import pytest
from common import GOOD
from sklearn.base import clone
from sklearn.datasets import make_blobs
from sklearn.exceptions import NotFittedError
from sklearn.metrics import adjusted_rand_score
from threadpoolctl import threadpool_limits

from pervade import VaDE, _core
from pervade._settings import AROUND, PARAMETERS, as_parameters, as_seed, as_settings, as_threads
from pervade.datasets import load_digits


def test_every_setting_is_a_parameter_and_is_documented():
    settings = set(json.loads(_core.settings("robust")))
    parameters = set(inspect.signature(VaDE).parameters)
    assert {PARAMETERS.get(name, name) for name in settings} | AROUND == parameters
    documented = set(re.findall(r"^    (\w+) : ", VaDE.__doc__.split("Attributes\n")[0], re.MULTILINE))
    assert documented == parameters


def test_attributes_and_shapes(small, rows):
    vade = small(n_components=5, n_init=2).fit(rows)
    assert vade.labels_.shape == (200,) and set(vade.labels_) == {0, 1, 2}
    assert vade.weights_.shape == (5,) and vade.weights_.sum() == pytest.approx(1)
    assert vade.means_.shape == vade.covariances_.shape == (5, 2) and (vade.covariances_ > 0).all()
    assert sorted(set(vade.component_labels_)) == [0, 1, 2]
    assert vade.n_iter_ == 2 and len(vade.history_["joint"]) == 2 and len(vade.history_["pretrain"]) == 20
    assert vade.lower_bound_ == pytest.approx(vade.score(rows), rel=1e-6)
    assert vade.n_features_in_ == 5 and not hasattr(vade, "feature_names_in_")
    assert 0 < vade.modularity_ < 1 and -1 <= vade.stability_ <= 1
    assert list(vade.get_feature_names_out()) == ["vade0", "vade1"]


def test_finds_planted_clusters(small, rows):
    from sklearn.datasets import make_blobs

    truth = make_blobs(200, 5, centers=3, random_state=3)[1]
    assert adjusted_rand_score(truth, small(**GOOD).fit_predict(rows)) > 0.95
    found = small("auto", **GOOD).fit(rows)
    assert found.n_clusters_ == len(set(found.labels_)) and adjusted_rand_score(truth, found.labels_) > 0.5


def test_levels_of_auto(small, rows):
    assert small().fit(rows).levels_ is None
    vade = small("auto", **GOOD).fit(rows)
    levels = vade.levels_
    assert [level["clusters"] for level in levels] == list(range(2, 2 + len(levels)))
    assert [level["clusters"] for level in levels if level["picked"]] == [vade.n_clusters_]
    assert all(-1 <= level["stability"] <= 1 and 0 < level["modularity"] < 1 for level in levels)
    assert any(level["stable"] for level in levels)


def test_methods_of_a_fitted_model(small, rows):
    vade = small(**GOOD).fit(rows)
    probabilities = vade.predict_proba(rows)
    np.testing.assert_allclose(probabilities.sum(axis=1), 1, atol=1e-6)
    np.testing.assert_array_equal(probabilities.argmax(axis=1), vade.predict(rows))
    np.testing.assert_array_equal(vade.labels_, vade.predict(rows))
    latents = vade.transform(rows)
    assert latents.shape == (200, 2) and latents.dtype == np.float32
    back = vade.inverse_transform(latents)
    # Much nearer to the rows than their mean: the latents carry information.
    assert np.square(back - rows).mean() < 0.3 * np.square(rows - rows.mean(axis=0)).mean()
    assert vade.score(rows) == pytest.approx(vade.score_samples(rows).mean())
    assert vade.score_samples(rows + 100).max() < vade.score_samples(rows).min()
    assert vade.aic(rows) < vade.bic(rows)


def test_score_samples_is_near_the_training_elbo(small, rows):
    # The state of the last epoch is the model; its ELBO was estimated from samples of z during the epoch.
    vade = small(**{**GOOD, "epochs": 60}, keep="last").fit(rows)
    last = [epoch["elbo"] for epoch in vade.history_["joint"][-5:]]
    spread = max(abs(a - b) for a in last for b in last)
    assert abs(vade.score(rows) - last[-1]) < 1.0 + spread
    # The mean of q(z|x) reconstructs better than a sample of it.
    assert vade.score(rows) > last[-1] - spread


def test_samples_of_a_cluster_are_assigned_to_it(small, rows):
    vade = small(**GOOD).fit(rows)
    for cluster in range(3):
        made, labels = vade.sample(50, cluster=cluster)
        assert made.shape == (50, 5) and (labels == cluster).all()
        assert (vade.predict(made) == cluster).mean() > 0.8
    made, labels = vade.sample(300)
    assert set(labels) == {0, 1, 2}
    np.testing.assert_array_equal(made, vade.sample(300)[0])  # an int is a seed


def test_the_result_depends_on_the_seed_but_not_on_threads(small, rows):
    first = small(random_state=7, n_jobs=1).fit(rows)._model.to_bytes()
    assert small(random_state=7, n_jobs=3).fit(rows)._model.to_bytes() == first
    assert small(random_state=8).fit(rows)._model.to_bytes() != first
    generators = [np.random.RandomState(5) for _ in range(2)]
    fits = [small(random_state=generator).fit(rows)._model.to_bytes() for generator in generators]
    assert fits[0] == fits[1]
    assert as_seed(np.int64(3)) == 3 and as_seed(None) != as_seed(None)


def test_threads_follow_n_jobs_and_threadpoolctl():
    assert as_threads(3) == 3 and as_threads(-1) >= 1
    with threadpool_limits(1):
        assert as_threads(None) == 1


def test_parameters_and_settings_are_equivalent(small):
    vade = small("auto", recipe="paper", hidden=(7, 5), decay=0.5, n_init=3, starts=2, choose="modularity")
    settings = json.loads(as_settings(vade.get_params()))
    assert settings["clusters"] == "auto" and settings["restarts"] == 3 and settings["hidden"] == [7, 5]
    assert "batch" not in settings and "device" not in settings
    full = {**json.loads(_core.settings("paper")), **settings}
    again = VaDE(**as_parameters(full), device="cpu").get_params()
    assert {k: v for k, v in again.items() if v != vade.get_params()[k]} == {}


def test_several_trials(small, rows):
    events = []
    vade = small(starts=3, callback=events.append).fit(rows)
    began = [event["start"] for event in events if event["event"] == "start-began"]
    chosen = [event for event in events if event["event"] == "start-chosen"]
    assert began == [0, 1, 2] and len(chosen) == 1
    again = small(starts=3).fit(rows)
    assert (vade.labels_ == again.labels_).all()


def test_fewer_components_than_clusters_are_raised(small, rows):
    with pytest.warns(UserWarning, match="n_components is 1, but each of the 3 clusters needs one"):
        assert small(3, n_components=1).fit(rows).weights_.shape == (3,)


def test_one_cluster(small, rows):
    vade = small(1).fit(rows)
    assert set(vade.labels_) == {0} and (vade.predict_proba(rows) == 1).all()


def test_the_callback_gets_events_and_can_end_a_fit(small, rows):
    events = []
    vade = small(callback=events.append).fit(rows)
    kinds = [event["event"] for event in events]
    assert kinds.count("trained") == 2 and kinds.count("pretrained") == 20 and "scored" in kinds
    assert [e["stage"] for e in events if e["event"] == "stage-started"] == ["pretrain", "mixture", "joint"]
    assert [e["elbo"] for e in events if e["event"] == "trained"][-1] == vade.history_["joint"][-1]["elbo"]

    def enough(event):
        if event["event"] == "trained":
            raise RuntimeError("enough")

    vade.set_params(callback=enough, epochs=1_000_000)
    with pytest.raises(RuntimeError, match="enough"):
        vade.fit(rows)
    with pytest.raises(NotFittedError):
        vade.predict(rows)
    assert vade.set_params(callback=None, epochs=1).fit(rows).labels_.shape == (200,)


@pytest.mark.parametrize("with_tqdm", [True, False])
def test_verbose_shows_the_stages(small, rows, capfd, monkeypatch, with_tqdm):
    if not with_tqdm:
        monkeypatch.setitem(__import__("sys").modules, "tqdm.auto", None)
    small(verbose=1).fit(rows)
    shown = capfd.readouterr()
    assert shown.out == ""
    for stage in ("pretraining", "starting the mixture", "joint training", "elbo"):
        assert stage in shown.err


def test_the_lock_is_released(small):
    X = np.random.default_rng(0).normal(size=(3000, 30)).astype(np.float32)
    ticks, done = [], threading.Event()

    def tick():
        while not done.is_set():
            ticks.append(time.monotonic())
            time.sleep(0.005)

    thread = threading.Thread(target=tick)
    thread.start()
    began = time.monotonic()
    small(hidden=(200, 200), pretrain_epochs=30).fit(X)
    ended = time.monotonic()
    done.set()
    thread.join()
    during = [t for t in ticks if began < t < ended]
    assert ended - began > 0.2 and max(np.diff(during)) < 0.5 * (ended - began) and len(during) > 10


def test_fits_in_threads_do_not_disturb_each_other(small, rows):
    alone = small().fit(rows)._model.to_bytes()
    together = []
    threads = [threading.Thread(target=lambda: together.append(small().fit(rows)._model.to_bytes())) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert together == [alone] * 4


def test_clone_is_unfitted(small, rows):
    copy = clone(small().fit(rows))
    with pytest.raises(NotFittedError):
        copy.transform(rows)


def test_digits():
    digits = load_digits()
    assert digits.data.shape == (1797, 64) and digits.data.max() == 16
    assert sorted(set(digits.target)) == list(range(10)) and "CC BY" in digits.DESCR
    from sklearn.datasets import load_digits as theirs

    np.testing.assert_array_equal(digits.target, theirs().target)
    np.testing.assert_array_equal(digits.data, theirs().data)


def test_a_consensus_tells_how_many_models_agree_on_each_row(small, rows):
    vade = small(n_components=5, n_init=3).fit(rows)
    assert vade.agreement_.shape == (200,) and set(np.round(vade.agreement_ * 3)) <= {1, 2, 3}
    assert vade.history_["restart"] == 3 and vade.history_["reference"] in (0, 1, 2)
    np.testing.assert_array_equal(vade.labels_, vade.predict(rows))
    assert small(n_components=5).fit(rows).agreement_ is None
    assert small(n_components=5, n_init=3, choose="modularity").fit(rows).agreement_ is None


def test_agreement_where_the_clusters_are_those_of_a_plain_method():
    X, _ = make_blobs(150, 3, centers=3, cluster_std=2.5, random_state=1)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        vade = VaDE(3, n_init=3, random_state=0, device="cpu", pretrain_epochs=1, epochs=1, hidden=(4,)).fit(X)
    assert json.loads(vade._model.info())["plain"]["method"] is not None
    assert vade.agreement_.shape == (150,) and set(np.round(3 * vade.agreement_)) <= {0, 1, 2, 3}
    assert vade.agreement_.mean() > 0.3


def test_bic_and_aic_are_those_of_the_networks(small, rows):
    vade = small(n_components=5).fit(rows)
    networks = vade._scores(rows, "network").sum()
    n = 5 - 1 + 2 * 5 * 2
    assert vade.bic(rows) == pytest.approx(-2 * networks + n * np.log(200))
    assert vade.aic(rows) == pytest.approx(-2 * networks + 2 * n)
