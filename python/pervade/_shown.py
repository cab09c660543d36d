"""What is seen of the clusters: descriptions, the map, and the page."""

from __future__ import annotations

import json
from os import PathLike
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from pervade._fitted import Fitted
from pervade._frames import Column, as_frame
from pervade._input import columns_aside, table
from pervade._progress import followed
from pervade._report import Report

# Per cluster, by default: columns, and rows of each kind.
COLUMNS, ROWS = 20, 5


class ReportOptions(NamedTuple):
    """What a page shows besides the model and its rows."""

    title: str
    points: int
    labels: list[int] | list[float] | list[str] | None
    kept: list[Column]


class Shown(Fitted):
    """The part of the estimator that shows the clusters."""

    def describe(self, X: Any, what: str = "columns", *, limit: int | None = None) -> Any:
        """Say what is in each cluster, as the command `pervade describe` does.

        There are no p-values: the clusters were made from these columns, so that every test would be significant.

        Parameters
        ----------
        X : array-like, sparse matrix or data frame of shape (n_samples, n_features)
            The rows.
        what : {"columns", "rows", "clusters"}, default="columns"
            "columns": the columns that tell each cluster from the other rows; "rows": its typical and its doubtful rows;
            "clusters": the clusters alone.
        limit : int, default=None
            Columns per cluster, or rows of each kind per cluster; `None` means 20 columns or 5 rows.

        Returns
        -------
        description : pandas.DataFrame
            For "columns" one row per cluster and column, the most telling columns first. `cluster`; `size`, its number of
            rows; `share` of all rows; `confidence`, the mean probability of the cluster over its rows; `column`, the name
            of the column, or of a level as "column: level"; `difference` of the means, in standard deviations of the
            column; `auc`, the probability that a row of the cluster has a higher value than another row; `inside` and
            `outside`, the typical value in the cluster and in the other rows, as text.

            For "rows" one row per example: `cluster`; `kind`, "typical" or "doubtful" (no cluster has a probability above
            0.9); `row`, its position in `X`; `confidence`, the probability of its cluster; `second`, the second most
            probable cluster, -1 if there is none, and `second_confidence`; `score`, as in `score_samples`.

            For "clusters" one row per cluster: `cluster`, `size`, `share` and `confidence`.

        Examples
        --------
        >>> from pervade import VaDE
        >>> from pervade.datasets import load_digits
        >>> X = load_digits().data
        >>> vade = VaDE(n_clusters=10, hidden=(32,), latents=4, pretrain_epochs=2, epochs=1, random_state=0).fit(X)
        >>> vade.describe(X, limit=3).shape
        (30, 9)
        >>> list(vade.describe(X, "clusters").columns)
        ['cluster', 'size', 'share', 'confidence']
        """
        model = self._use()
        check_describe(what, limit)
        columns, rows = limits(what, limit)
        given = table(self, X, reset=False)
        found = model.describe(given, self._compute_options(), columns=columns, rows=rows)
        return described(json.loads(found), what)

    def map(self, X: Any) -> NDArray[np.float32]:
        """Lay rows out in the plane, so that neighbours in the latent space stay neighbours.

        The positions are those of the command `pervade map`: a repeatable t-SNE of the latents. Distances between islands
        mean little; what is on one island belongs together. Every call lays out the rows that it is given by themselves,
        so that positions of different calls cannot be compared.

        Parameters
        ----------
        X : array-like, sparse matrix or data frame of shape (n_samples, n_features)
            The rows.

        Returns
        -------
        positions : ndarray of shape (n_samples, 2)
            Single precision.

        Examples
        --------
        After the example of `describe`:

        >>> vade.map(X[:200]).shape  # doctest: +SKIP
        (200, 2)
        """
        model, rows = self._use(), table(self, X, reset=False)
        with followed(self.verbose) as on_event:
            return model.map(rows, self._compute_options(), on_event=on_event)

    def report(
        self,
        X: Any,
        path: str | PathLike[str] | None = None,
        *,
        labels: Any = None,
        title: str = "X",
        points: int = 100_000,
    ) -> Report:
        """Make one page about the clusters, as the command `pervade report` does.

        It has the result in words, a map of all rows, a card per cluster with the columns that tell it from the others,
        doubtful and unusual rows, and the history of the fit. It makes no request, and holds some of the rows: send it
        only to those who may see them.

        Parameters
        ----------
        X : array-like, sparse matrix or data frame of shape (n_samples, n_features)
            The rows. Columns of a data frame that are not clustered, such as ids, name them.
        path : str or path-like, default=None
            A file to write the page to, by convention `*.html`.
        labels : array-like of shape (n_samples,), default=None
            Labels to compare the clusters with.
        title : str, default="X"
            The heading.
        points : int, default=100000
            Rows on the map, at most; of more rows a sample is shown.

        Returns
        -------
        report : Report
            Shows the page as the result of a notebook's cell; `save` writes it to a file, `html` is the page.

        Examples
        --------
        After the example of `describe`:

        >>> vade.report(X[:200], "digits.html", title="digits")  # doctest: +SKIP
        """
        model = self._use()
        frame = as_frame(X)
        kept = [] if frame is None else columns_aside(self, frame)
        options = ReportOptions(str(title), points, as_labels(labels), kept)
        rows = table(self, X if frame is None else frame, reset=False)
        with followed(self.verbose) as on_event:
            page = model.report(rows, self._compute_options(), options, on_event=on_event)
        report = Report(page, options.title)
        if path is not None:
            report.save(path)
        return report


def check_describe(what: str, limit: int | None) -> None:
    """Checks before any work, also that there is pandas."""
    if what not in ("columns", "rows", "clusters"):
        raise ValueError(f"`what` is {what!r}, must be 'columns', 'rows' or 'clusters'")
    if limit is not None and limit < 1:
        raise ValueError(f"`limit` is {limit}, must be at least 1")
    try:
        import pandas  # noqa: F401
    except ImportError as missing:
        raise ValueError("`describe` returns a data frame, which needs pandas") from missing


def limits(what: str, limit: int | None) -> tuple[int, int]:
    """Columns and rows per cluster that the library is asked for."""
    if what == "columns":
        return COLUMNS if limit is None else limit, 0
    return 0, (ROWS if limit is None else limit) if what == "rows" else 0


def described(clusters: list[dict[str, Any]], what: str) -> Any:
    """The data frame for the library's description."""
    import pandas as pd

    def number(value: float | None) -> float:
        return np.nan if value is None else value

    def about(index: int, cluster: dict[str, Any]) -> dict[str, Any]:
        size, share, confidence = cluster["size"], cluster["share"], number(cluster["confidence"])
        return {"cluster": index, "size": size, "share": share, "confidence": confidence}

    def example(index: int, kind: str, row: dict[str, Any]) -> dict[str, Any]:
        second, share = row["second"] or (-1, None)
        return {
            "cluster": index, "kind": kind, "row": row["row"], "confidence": row["confidence"],
            "second": second, "second_confidence": number(share), "score": number(row["score"]),
        }  # fmt: skip

    def column(index: int, cluster: dict[str, Any], column: dict[str, Any]) -> dict[str, Any]:
        numbers = {name: number(column[name]) for name in ("difference", "auc")}
        return {
            **about(index, cluster), "column": column["column"], **numbers,
            "inside": column["inside"], "outside": column["outside"],
        }  # fmt: skip

    each = list(enumerate(clusters))
    if what == "clusters":
        return pd.DataFrame([about(k, cluster) for k, cluster in each])
    if what == "columns":
        return pd.DataFrame([column(k, cluster, found) for k, cluster in each for found in cluster["columns"]])
    kinds = ("typical", "doubtful")
    return pd.DataFrame([example(k, kind, row) for k, cluster in each for kind in kinds for row in cluster[kind]])


def as_labels(labels: Any) -> list[int] | list[float] | list[str] | None:
    """Labels as the library takes them: whole numbers, numbers or words."""
    if labels is None:
        return None
    given = np.asarray(labels)
    if given.ndim != 1:
        raise ValueError(f"`labels` have the shape {given.shape}, must be one per row")
    if given.dtype.kind in "iuf":
        values: list[Any] = given.tolist()
        return values
    words = [None if label is None or label != label else str(label) for label in given.tolist()]
    if None in words:
        raise ValueError(f"the label of row {words.index(None)} is missing: every row needs a label")
    return [word for word in words if word is not None]
