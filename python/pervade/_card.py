"""A fitted estimator in a notebook: its clusters on a small card above scikit-learn's diagram."""

from __future__ import annotations

import json
from html import escape
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pervade import _core
from pervade._fitted import Fitted
from pervade._settings import ComputeOptions, as_threads

# The colours of the page: Okabe and Ito's without black, then Paul Tol's.
COLOURS = (
    "#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#d55e00", "#f0e442", "#828282",
    "#5f4bbe", "#44aa99", "#999933", "#882255", "#ddcc77", "#117733", "#aa4499", "#cc6677",
)  # fmt: skip
# Clusters with a bar of their own, and remarks.
MAX_BARS, MAX_REMARKS = 16, 3
# Of the map, in pixels.
SIDE = 260
# A row is doubtful if no cluster has a probability above this.
DOUBTFUL = 0.9

STYLE = """
.pervade-card { color: var(--jp-content-font-color1, var(--vscode-editor-foreground, inherit)); font-size: 13px;
  line-height: 1.5; border: 1px solid rgba(128, 128, 128, 0.5); border-radius: 6px; padding: 10px 14px;
  margin: 4px 0 8px; max-width: 760px; background: transparent; }
.pervade-card p { margin: 0 0 2px; }
.pervade-card .pervade-title { font-size: 15px; font-weight: 600; }
.pervade-card .pervade-sides { display: flex; flex-wrap: wrap; gap: 8px 28px; align-items: flex-start; margin: 8px 0 4px; }
.pervade-card table { border-collapse: collapse; border: none; margin: 0; font-size: 12px; color: inherit; }
.pervade-card tr, .pervade-card tbody tr:nth-child(odd), .pervade-card tbody tr:hover { background: transparent !important; }
.pervade-card th, .pervade-card td { border: none; padding: 1px 6px; text-align: right; font-weight: normal; color: inherit; }
.pervade-card thead th { opacity: 0.8; }
.pervade-card td.pervade-bar { text-align: left; width: 180px; min-width: 90px; }
.pervade-card td.pervade-bar span { display: inline-block; height: 10px; min-width: 1px; border-radius: 2px;
  vertical-align: middle; }
.pervade-card code { background: rgba(128, 128, 128, 0.15); color: inherit; padding: 0 3px; border-radius: 3px; }
"""


class SomeRows:
    """Some rows of a fit, for the card: latents, clusters and confidences; the positions are found when they are first shown."""

    def __init__(self, latents: NDArray[np.float32], clusters: NDArray[np.int32], confidences: NDArray[np.float32]) -> None:
        self.latents = latents
        self.clusters = clusters
        self.confidences = confidences
        self._positions: NDArray[np.float32] | None = None

    def positions(self, threads: int) -> NDArray[np.float32]:
        """The rows in the plane."""
        if self._positions is None:
            options = ComputeOptions("cpu", "fp32", threads)
            self._positions = _core.lay_out(self.latents, self.clusters, options)
        return self._positions


class Card(Fitted):
    """The part of the estimator that notebooks show."""

    # None for a loaded model.
    _some_rows: SomeRows | None

    def _repr_html_inner(self) -> str:
        diagram: str = super()._repr_html_inner()  # type: ignore[misc]
        return self._card() + diagram

    def _repr_mimebundle_(self, **options: Any) -> dict[str, str]:
        bundle: dict[str, str] = super()._repr_mimebundle_(**options)  # type: ignore[misc]
        if "text/html" in bundle:
            bundle["text/html"] = self._card() + bundle["text/html"]
        return bundle

    def _card(self) -> str:
        """The card; empty unless the estimator is fitted."""
        if not hasattr(self, "_model"):
            return ""
        about = json.loads(self._model.info())
        sides = bars(about["occupancy"], self._some_rows) + self._map()
        more = "<code>vade.report(X)</code> shows all about them, <code>vade.describe(X)</code> what makes them."
        lines = "".join(f"<p>{line}</p>" for line in sentences(about, self._some_rows))
        return (
            f'<style>{STYLE}</style><div class="pervade-card"><p class="pervade-title">{heading(about)}</p>{lines}'
            f'<div class="pervade-sides">{sides}</div><p>{more}</p></div>'
        )

    def _map(self) -> str:
        rows = self._some_rows
        if rows is None or len(rows.clusters) < 3:
            return ""
        return drawing(rows.positions(as_threads(self.n_jobs)), rows.clusters)


def heading(about: dict[str, Any]) -> str:
    """What was found, and in what."""
    n, rows, columns = about["n_clusters"], about["n_rows"], about["n_columns"]
    clusters = "1 cluster" if n == 1 else f"{n:,} clusters"
    return f"{clusters} in {rows:,} rows of {columns:,} {'column' if columns == 1 else 'columns'}"


def sentences(about: dict[str, Any], rows: SomeRows | None) -> list[str]:
    """How sure the result is, and remarks about it."""
    found = []
    restarts = len(about["restarts"])
    if about["stability"] is not None:
        found.append(
            f"Stability over {restarts} restarts: <b>{about['stability']:.3f}</b> (mean adjusted Rand index; 1 is perfect)."
        )
    else:
        found.append("Stability: not known from one restart; <code>n_init=10</code> tells.")
    if rows is not None and about["n_clusters"] > 1:
        sure = float(np.mean(rows.confidences > DOUBTFUL))
        of = "the rows" if len(rows.confidences) == about["n_rows"] else f"a sample of {len(rows.confidences):,} rows"
        found.append(f"Confidence: in <b>{sure:.0%}</b> of {of} one cluster has a probability above {DOUBTFUL}.")
    record = about["record"]
    found.append(f"Modularity: <b>{record['states'][record['kept']]['modularity']:.3f}</b>; above 0.5 is clear structure.")
    remarks = record.get("remarks", [])
    found += [f"Note: {escape(remark)}." for remark in remarks[:MAX_REMARKS]]
    if len(remarks) > MAX_REMARKS:
        found.append(f"{len(remarks) - MAX_REMARKS} more notes are in <code>vade.history_[\"remarks\"]</code>.")
    return found


def bars(sizes: list[int], rows: SomeRows | None) -> str:
    """A table of the clusters with their sizes as bars, and their mean confidences."""
    total, largest = max(sum(sizes), 1), max(*sizes, 1)
    confidence = "" if rows is None else '<th scope="col">confidence</th>'
    lines = []
    for cluster, size in enumerate(sizes[:MAX_BARS]):
        bar = f'<span style="width: {100 * size / largest:.1f}%; background: {colour(cluster)}"></span>'
        cells = f'<th scope="row">{cluster}</th><td class="pervade-bar">{bar}</td><td>{size:,}</td><td>{size / total:.1%}</td>'
        lines.append(f"<tr>{cells}{mean_confidence(cluster, rows)}</tr>")
    if len(sizes) > MAX_BARS:
        left = sum(sizes[MAX_BARS:])
        more = f"and {len(sizes) - MAX_BARS} more"
        lines.append(f'<tr><td></td><td class="pervade-bar">{more}</td><td>{left:,}</td><td>{left / total:.1%}</td></tr>')
    head = f'<th scope="col">cluster</th><td></td><th scope="col">rows</th><th scope="col">share</th>{confidence}'
    return f"<table><thead><tr>{head}</tr></thead><tbody>{''.join(lines)}</tbody></table>"


def mean_confidence(cluster: int, rows: SomeRows | None) -> str:
    """The mean probability of a cluster over its rows, as a cell."""
    if rows is None:
        return ""
    of_cluster = rows.confidences[rows.clusters == cluster]
    return f"<td>{of_cluster.mean():.2f}</td>" if len(of_cluster) else "<td>-</td>"


def drawing(positions: NDArray[np.float32], clusters: NDArray[np.int32]) -> str:
    """Rows in the plane as an SVG: one path of dots per cluster, with its number among its rows."""
    margin = 8
    low, high = positions.min(axis=0), positions.max(axis=0)
    scale = (SIDE - 2 * margin) / max(float((high - low).max()), 1e-9)
    points = margin + (positions - low) * scale
    points[:, 1] = margin + (high[1] - positions[:, 1]) * scale
    width, height = (high - low) * scale + 2 * margin
    paths, names = [], []
    for cluster in np.unique(clusters):
        own = points[clusters == cluster]
        dots = "".join(f"M{x:.1f} {y:.1f}h0" for x, y in own)
        paths.append(f'<path d="{dots}" stroke="{colour(int(cluster))}"/>')
        # The row nearest to the middle, since the middle itself may lie on another island.
        x, y = own[((own - np.median(own, axis=0)) ** 2).sum(axis=1).argmin()]
        names.append(
            f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="middle" dominant-baseline="central" font-size="12" '
            f'font-weight="700" fill="#fff" stroke="#222" stroke-width="3" stroke-linejoin="round" paint-order="stroke">{cluster}</text>'
        )
    rows = f"{len(clusters):,} rows"
    return (
        f'<svg role="img" aria-label="Map of {rows}, coloured by cluster" width="{width:.0f}" height="{height:.0f}" '
        f'viewBox="0 0 {width:.0f} {height:.0f}"><title>{rows}; distances between islands mean little</title>'
        f'<g fill="none" stroke-width="3" stroke-linecap="round" stroke-opacity="0.75">{"".join(paths)}</g>{"".join(names)}</svg>'
    )


def colour(cluster: int) -> str:
    """The colour of a cluster."""
    return COLOURS[cluster] if cluster < len(COLOURS) else f"hsl({cluster * 137.508 % 360:.0f} 60% 50%)"
