"""The page about the clusters, as a value."""

from __future__ import annotations

import html
from os import PathLike

from pervade import _core

# The page may run its own scripts and offer downloads, and reaches nothing of the notebook around it.
FRAME = (
    '<iframe title="{title}" srcdoc="{page}" sandbox="allow-scripts allow-downloads" '
    'style="width: 100%; height: 760px; border: 1px solid rgba(128, 128, 128, 0.4); border-radius: 4px"></iframe>'
)


class Report:
    """One page about the clusters, as `VaDE.report` makes it.

    As the result of a notebook's cell it shows the page. The page is one file that makes no request.

    Parameters
    ----------
    html : str
        The page.
    title : str
        Its heading.

    Attributes
    ----------
    html : str
        The page.
    title : str
        Its heading.
    """

    def __init__(self, html: str, title: str) -> None:
        self.html = html
        self.title = title

    def save(self, path: str | PathLike[str]) -> None:
        """Write the page to a file; an existing one is replaced.

        Parameters
        ----------
        path : str or path-like
            The file, by convention `*.html`.
        """
        _core.write_text(path, self.html)

    def __repr__(self) -> str:
        return f"<Report on {self.title!r}, {len(self.html.encode()) / 1e6:.1f} MB; .save('report.html') writes it>"

    def _repr_html_(self) -> str:
        return FRAME.format(title=html.escape(f"Report on {self.title}"), page=html.escape(self.html))
