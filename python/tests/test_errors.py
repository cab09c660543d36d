"""Errors of the library reach Python with their messages."""

import numpy as np
import pytest
from sklearn.exceptions import NotFittedError

from pervade import VaDE

REFUSED = {
    "`n_clusters` is 300, but the data have only 200 rows": {"n_clusters": 300},
    "`n_clusters` is 0, must be a whole number of at least 1, or 'auto'": {"n_clusters": 0},
    "`n_clusters` is 'AUTO', must be a whole number of at least 1, or 'auto'": {"n_clusters": "AUTO"},
    "`n_clusters` is 2.5, must be": {"n_clusters": 2.5},
    "`n_init` is 0, must be at least 1": {"n_init": 0},
    "`pretrain_batch` is 0": {"pretrain_batch": 0},
    "`batch` is 0, must be at least 1": {"batch": 0},
    '`batch` is "all"': {"batch": "all"},
    "`epochs` is -1": {"epochs": -1},
    "`dropout` is 2, must be at least 0 and at most 0.95": {"dropout": 2.0},
    "`recipe` is \"secret\"": {"recipe": "secret"},
    "`device` is abacus, must be `auto`, `cpu`, `cuda` or `cuda:N`": {"device": "abacus"},
    "`precision` is fp8": {"precision": "fp8"},
    'hint: use `prepare="unit"`, or `likelihood="gaussian-fixed"`': {"likelihood": "bernoulli", "prepare": "none"},
    "`random_state` is": {"random_state": -5},
}


@pytest.mark.parametrize("words", REFUSED)
def test_settings(small, rows, words):
    vade = small().set_params(**REFUSED[words])
    with pytest.raises(ValueError) as caught:
        vade.fit(rows)
    assert any(part in str(caught.value) for part in words.split("|")), caught.value
    with pytest.raises(NotFittedError):
        vade.predict(rows)


def test_rows(small, rows):
    bad = rows.copy()
    bad[7, 3] = np.inf
    with pytest.raises(ValueError, match=r"1 values are not finite numbers; the first is inf in row 8, column 4"):
        small().fit(bad)
    with pytest.raises(ValueError, match="the first is inf in row 8, column 4"):
        small().fit(rows).predict(bad)
    with pytest.raises(ValueError, match="there is nothing to cluster"):
        small().fit(np.ones((20, 3)))
    with pytest.raises(ValueError, match="all 20 rows are the same"):
        small().fit(np.tile([1.0, 2.0, 3.0], (20, 1)))
    with pytest.raises(ValueError, match="X has 4 features, but VaDE is expecting 5 features"):
        small().fit(rows).predict(rows[:, :4])
    with pytest.raises(ValueError, match="dtype='numeric' is not compatible|could not convert string"):
        small().fit(np.array([["a", "b"], ["c", "d"]]))
    with pytest.raises(ValueError, match="not finite"):
        small().fit(np.array([[1e300, 1.0], [2.0, 3.0]]))


def test_hints_name_parameters_and_methods(small, rows, tmp_path):
    # The command would say `--prepare unit`, `pervade fit`.
    with pytest.raises(ValueError) as caught:
        small(likelihood="bernoulli", prepare="none").fit(rows)
    assert "--" not in str(caught.value)
    (tmp_path / "m.pervade").write_bytes(b"nothing")
    with pytest.raises(ValueError, match="hint: models are made by `VaDE.fit`; the file may be cut short"):
        VaDE.load(tmp_path / "m.pervade")
    X = rows.copy()
    X[4] = 3e38
    with pytest.raises(ValueError, match="such rows get very low values from `VaDE.score_samples`"):
        small(prepare="standardise").fit(rows * np.float32(1e-3)).predict(X)


def test_samples_and_latents(small, rows):
    vade = small().fit(rows)
    with pytest.raises(ValueError, match="`cluster` is 3, must be below 3"):
        vade.sample(1, cluster=3)
    with pytest.raises(ValueError, match="`cluster` is -1"):
        vade.sample(1, cluster=-1)
    with pytest.raises(ValueError, match="`n_samples` is 0"):
        vade.sample(0)
    with pytest.raises(ValueError, match="`X` has 3 columns, the latent space has 2"):
        vade.inverse_transform(np.zeros((4, 3)))


def test_a_failed_refit_leaves_nothing(small, rows):
    vade = small().fit(rows)
    with pytest.raises(ValueError):
        vade.fit(rows[:1])
    assert not [name for name in vars(vade) if name.endswith("_") and name != "n_features_in_"]
    with pytest.raises(NotFittedError):
        vade.predict(rows)
