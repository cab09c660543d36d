"""The model of a fitted estimator, which its other parts use."""

from __future__ import annotations

from sklearn.utils.validation import check_is_fitted

from pervade import _core
from pervade._settings import ComputeOptions, as_threads


class Fitted:
    """The part of the estimator that holds the model and says how to compute."""

    device: str
    precision: str
    n_jobs: int | None
    verbose: int
    _model: _core.Model

    def _use(self) -> _core.Model:
        """The model; an error if there is none."""
        check_is_fitted(self)
        return self._model

    def _compute_options(self) -> ComputeOptions:
        return ComputeOptions(self.device, self.precision, as_threads(self.n_jobs))
