"""Scores of whole tables."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from pervade._fitted import Fitted
from pervade._input import table


class Criteria(Fitted):
    """The part of the estimator that compares models by the scores of rows."""

    weights_: NDArray[np.float64]
    means_: NDArray[np.float64]
    covariances_: NDArray[np.float64]

    def score_samples(self, X: Any) -> NDArray[np.float64]:
        """The score of each row, in nats: low for rows unlike the fitted ones.

        If columns have types it is the log density of the row, estimated by importance sampling; on small tables of numbers
        that of an even mixture of the model and a Gaussian mixture on the rows. Otherwise it is the
        ELBO of the prepared row, a lower bound on its log density with one approximation: q(c|x) is at its optimum and
        the expectation of log p(x|z) is taken at the mean of q(z|x), so that a row's score depends only on the row; a
        sample of z, as in training, gives a slightly lower value on average.

        Parameters
        ----------
        X : array-like, sparse matrix or data frame of shape (n_samples, n_features)
            The rows.

        Returns
        -------
        scores : ndarray of shape (n_samples,)
            Higher for rows more like the data.
        """
        return self._scores(X, "score")

    def anomaly_scores(self, X: Any) -> NDArray[np.float64]:
        """How unusual each row is: high for rows unlike the fitted ones.

        If columns have types it counts both the log density of the row as a whole and that of each of its cells alone,
        -(log p(x) + 3 sum_j log p(x_j)). Otherwise it is minus the result of `score_samples`.

        Parameters
        ----------
        X : array-like, sparse matrix or data frame of shape (n_samples, n_features)
            The rows.

        Returns
        -------
        scores : ndarray of shape (n_samples,)
            Higher for rows less like the data.
        """
        return self._scores(X, "anomaly")

    def _scores(self, X: Any, kind: str) -> NDArray[np.float64]:
        return self._use().score(table(self, X, reset=False), self._compute_options(), kind=kind)

    def score(self, X: Any, y: object = None) -> float:
        """The mean of `score_samples`.

        Parameters
        ----------
        X : array-like, sparse matrix or data frame of shape (n_samples, n_features)
            The rows.
        y : Ignored
            Not used.

        Returns
        -------
        score : float
            Nats per row, higher is better.
        """
        return float(np.mean(self.score_samples(X)))

    def bic(self, X: Any) -> float:
        """Bayesian information criterion, from the networks' score of each row in place of the log likelihood.

        It counts only the parameters of the prior. The size of the networks does not depend on the number
        of clusters, so it compares models of the same `hidden`, `latents`, `likelihood` and `prepare`.

        On small tables of numbers `score` is that of an even mixture of the networks and of a Gaussian mixture on the
        rows. That mixture has parameters of its own, whose number is not the prior's, so it does not count here: the
        criterion is about the networks alone, and -2 n `score(X)` plus the penalty is another number.

        Parameters
        ----------
        X : array-like, sparse matrix or data frame of shape (n_samples, n_features)
            The rows.

        Returns
        -------
        bic : float
            Lower is better.
        """
        scores = self._scores(X, "network")
        return float(-2.0 * scores.sum() + self._n_prior_parameters() * np.log(len(scores)))

    def aic(self, X: Any) -> float:
        """Akaike's information criterion, from the networks' scores in place of the log likelihood; see `bic`.

        Parameters
        ----------
        X : array-like, sparse matrix or data frame of shape (n_samples, n_features)
            The rows.

        Returns
        -------
        aic : float
            Lower is better.
        """
        return float(-2.0 * self._scores(X, "network").sum() + 2.0 * self._n_prior_parameters())

    def _n_prior_parameters(self) -> int:
        # Weights sum to one; means and variances are free.
        return int(self.weights_.size - 1 + self.means_.size + self.covariances_.size)
