"""Data to try pervade on."""

from __future__ import annotations

from typing import Any

from sklearn.utils import Bunch

from pervade import _core

__all__ = ["load_digits"]

ABOUT = """1,797 handwritten digits of 8 x 8 pixels with grey levels from 0 to 16, and their labels.

UCI Optical Recognition of Handwritten Digits, E. Alpaydin and C. Kaynak, CC BY 4.0.
"""


def load_digits() -> Any:
    """Load the handwritten digits that are included in pervade, as used by `pervade demo`.

    Returns
    -------
    digits : :class:`~sklearn.utils.Bunch`
        `data`, float32 of shape (1797, 64); `images`, the same of shape (1797, 8, 8); `target`, the
        digits, int64 of shape (1797,), for scoring a result; `DESCR`, their source.

    Examples
    --------
    >>> from pervade.datasets import load_digits
    >>> digits = load_digits()
    >>> digits.data.shape, digits.images.shape
    ((1797, 64), (1797, 8, 8))
    """
    data, target = _core.digits()
    return Bunch(data=data, images=data.reshape(-1, 8, 8), target=target, DESCR=ABOUT)
