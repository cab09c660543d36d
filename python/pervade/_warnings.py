"""Warnings of their own class, so that they can be filtered."""


class FitWarning(UserWarning):
    """Something to know about a fitted model.

    `VaDE.fit` issues one for each remark at its end: clusters that collapsed, a start that joint training did not
    improve. `VaDE.load` and unpickling issue one for a model without a checksum, which cannot be verified.

    Examples
    --------
    >>> import warnings
    >>> from pervade import FitWarning
    >>> warnings.simplefilter("ignore", FitWarning)  # or "error"
    """
