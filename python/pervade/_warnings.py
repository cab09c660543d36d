"""A warning class, so that our warnings can be filtered."""


class FitWarning(UserWarning):
    """A remark about a fitted model.

    `VaDE.fit` issues one per remark at its end: clusters that collapsed, a mixture start that joint training did
    not improve. `VaDE.load` and unpickling issue one for a model without a checksum, which cannot be verified.

    Examples
    --------
    >>> import warnings
    >>> from pervade import FitWarning
    >>> warnings.simplefilter("ignore", FitWarning)  # or "error"
    """
