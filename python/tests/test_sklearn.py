"""Pipelines, grid search and cross-validation of scikit-learn."""

import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.base import is_clusterer
from sklearn.metrics import silhouette_score
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler


def test_pipeline(small, rows):
    pipe = make_pipeline(StandardScaler(), small())
    labels = pipe.fit_predict(rows)
    np.testing.assert_array_equal(labels, pipe.predict(rows))
    assert pipe.transform(rows).shape == (200, 2) and np.isfinite(pipe.score(rows))
    assert pipe.inverse_transform(pipe.transform(rows)).shape == rows.shape
    assert list(pipe.get_feature_names_out()) == ["vade0", "vade1"]
    assert is_clusterer(pipe)


def label_free(estimator, X, y=None):
    """How well the clusters are separated in the latent space."""
    labels = estimator.predict(X)
    return silhouette_score(estimator.transform(X), labels) if len(set(labels)) > 1 else -1.0


@pytest.mark.parametrize("n_jobs", [None, 2])
def test_grid_search_over_the_number_of_clusters(small, rows, n_jobs):
    search = GridSearchCV(small(epochs=5), {"n_clusters": [2, 3, 6]}, scoring=label_free, cv=2, n_jobs=n_jobs)
    search.fit(rows)
    assert search.best_params_["n_clusters"] in (2, 3)
    assert not np.isnan(search.cv_results_["mean_test_score"]).any()
    assert search.predict(rows).shape == (200,)
    assert np.isfinite(GridSearchCV(small(), {"latents": [1, 2]}, cv=2).fit(rows).best_score_)


def test_cross_val_score(small, rows):
    scores = cross_val_score(small(), rows, cv=3, error_score="raise")
    assert scores.shape == (3,) and np.isfinite(scores).all()


def test_set_output(small, rows):
    frame = pd.DataFrame(rows, index=[f"r{i}" for i in range(200)])
    latents = small().set_output(transform="pandas").fit_transform(frame)
    assert isinstance(latents, pd.DataFrame) and list(latents.columns) == ["vade0", "vade1"]
    assert list(latents.index) == list(frame.index)
    latents = small().set_output(transform="polars").fit_transform(pl.DataFrame(rows))
    assert isinstance(latents, pl.DataFrame) and latents.columns == ["vade0", "vade1"]
    assert latents.shape == (200, 2)
