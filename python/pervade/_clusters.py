"""Clusters of rows."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from pervade._fitted import Fitted
from pervade._input import table


class Clusters(Fitted):
    """The part of the estimator that assigns rows to clusters."""

    def predict(self, X: Any) -> NDArray[np.int32]:
        """The most probable cluster of each row.

        Parameters
        ----------
        X : array-like, sparse matrix or data frame of shape (n_samples, n_features)
            The rows.

        Returns
        -------
        labels : ndarray of shape (n_samples,)
            Clusters, numbered from 0.
        """
        return self._use().assign(table(self, X, reset=False), self._compute_options())[0]

    def predict_proba(self, X: Any) -> NDArray[np.float32]:
        """The probability of each cluster, q(c|x) at the latent mean.

        Parameters
        ----------
        X : array-like, sparse matrix or data frame of shape (n_samples, n_features)
            The rows.

        Returns
        -------
        probabilities : ndarray of shape (n_samples, n_clusters_)
            Each row sums to one.
        """
        return self._use().assign(table(self, X, reset=False), self._compute_options())[1]
