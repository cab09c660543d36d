"""Clustering by Variational Deep Embedding (VaDE).

`VaDE` is a scikit-learn estimator: it learns a representation, assigns every row to a cluster, gives a
probability for each cluster, maps rows to a small latent space and generates new rows of any cluster. It
never needs labels. `pervade.datasets` has data to try it on, `pervade.anndata` works on AnnData
objects, `pervade.arrow` on record batches in Spark, Ray and Dask, and `python -m pervade` is the command line.

Examples
--------
>>> from pervade import VaDE
>>> from pervade.datasets import load_digits
>>> X = load_digits().data
>>> vade = VaDE(n_clusters=10, hidden=(32,), latents=4, pretrain_epochs=2, epochs=1, random_state=0)
>>> vade.fit_predict(X).shape
(1797,)
"""

from importlib import import_module
from typing import TYPE_CHECKING

from pervade._core import __version__

if TYPE_CHECKING:
    from pervade._report import Report
    from pervade._vade import VaDE
    from pervade._warnings import FitWarning

__all__ = ["FitWarning", "Report", "VaDE", "__version__"]

# Imported when first used: the command `pervade` needs neither NumPy nor scikit-learn, and starts at once.
_MODULES = {"FitWarning": "pervade._warnings", "Report": "pervade._report", "VaDE": "pervade._vade"}


def __getattr__(name: str) -> object:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value: object = getattr(import_module(_MODULES[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
