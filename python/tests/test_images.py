"""Rows that are images, and convolutional networks."""

import numpy as np
import pytest

from pervade import VaDE
from pervade.datasets import load_digits


def test_a_convolutional_network_from_fit_to_file(small, tmp_path):
    X = load_digits().data[:300]
    vade = small(10, network="conv", hidden=(8, 8, 16), image_shape=(8, 8)).fit(X)
    vade.save(tmp_path / "digits.pervade")
    loaded = VaDE.load(tmp_path / "digits.pervade")
    assert (loaded.network, loaded.hidden, loaded.image_shape) == ("conv", (8, 8, 16), (8, 8, 1))
    np.testing.assert_array_equal(loaded.predict(X), vade.labels_)
    again = loaded.set_params(random_state=vade.random_state).fit(X)
    np.testing.assert_array_equal(again.predict_proba(X), vade.predict_proba(X))


@pytest.mark.parametrize(
    ("shape", "message"),
    [
        (None, "not known to be pictures"),
        ((8, 9), "72 values, but the rows have 64"),
        ((8, 8, 2), "must be like"),
        ((8.0, 8), "must be like"),
        (64, "must be like"),
    ],
)
def test_a_wrong_shape_is_refused(small, shape, message):
    with pytest.raises(ValueError, match=message):
        small(10, network="conv", hidden=(8, 16), image_shape=shape).fit(load_digits().data)
