"""Fitted models as files of other tools."""

from __future__ import annotations

from os import PathLike
from typing import overload

from pervade import _core


class Exports:
    """Methods of `VaDE` that write files of other tools."""

    def _use(self) -> _core.Model:
        raise NotImplementedError

    @overload
    def to_onnx(self, path: None = None, *, score: bool = True) -> bytes: ...
    @overload
    def to_onnx(self, path: str | PathLike[str], *, score: bool = True) -> None: ...
    def to_onnx(self, path: str | PathLike[str] | None = None, *, score: bool = True) -> bytes | None:
        """The model as an ONNX graph (opset 17), for any language that has a runtime for it.

        The graph takes rows as they are; their preparation is part of it. Its outputs are `cluster` (int64) of shape
        (batch,), `probabilities` and `latents` (float32) of two dimensions, and `score` (float32), as `predict`,
        `predict_proba`, `transform` and `score_samples` give them.

        Tables of numbers are one input, `rows`, of shape (batch, n_features): float32, or float64 if columns have
        types, with NaN for missing cells. Frames with categories or dates have one input of shape (batch, 1) per
        clustered column, with its name: float64 for numbers and for dates (seconds since 1970-01-01 UTC), strings for
        levels, where "" is missing.

        Parameters
        ----------
        path : str or path-like, default=None
            The file, by convention `*.onnx`; by default its bytes are returned.
        score : bool, default=True
            Whether `score` is an output. Without it the graph has no decoder. For models of typed columns the score is
            estimated from 128 passes of the decoder, and for small tables of numbers without gaps it is NaN where
            cells of new rows are missing.

        Returns
        -------
        bytes or None
            The content of the file, unless it was written.

        Examples
        --------
        >>> import numpy as np
        >>> from pervade import VaDE
        >>> X = np.repeat(np.eye(40, dtype=np.float32), 3, axis=0)
        >>> vade = VaDE(2, hidden=(8,), latents=2, pretrain_epochs=2, epochs=1, random_state=0).fit(X)
        >>> vade.to_onnx()[:2]  # the version of the format, 8
        b'\\x08\\x08'
        """
        if path is None:
            return self._use().to_onnx(score)
        self._use().write_onnx(path, score)
        return None
