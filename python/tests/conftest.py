"""Fixtures for all tests."""

import os

# One of scikit-learn's checks is skipped without this, and it has an effect only before SciPy is imported.
os.environ["SCIPY_ARRAY_API"] = "1"

import numpy as np
import pytest
from common import SMALL
from sklearn.datasets import make_blobs

from pervade import VaDE


@pytest.fixture
def small():
    """Makes estimators that fit almost instantly."""

    def make(n_clusters=3, **parameters):
        return VaDE(n_clusters, **{**SMALL, **parameters})

    return make


@pytest.fixture(scope="session")
def rows():
    """Three well separated clusters in five columns, single precision."""
    X, _ = make_blobs(200, 5, centers=3, random_state=3)
    return X.astype(np.float32)
