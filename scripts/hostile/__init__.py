"""Hostile cases for the `pervade` command, grouped in families. Run them with `scripts/attack`.

`case.py` runs one command and checks its output; `lab.py` makes small valid files of every format;
`damage.py` damages them; the remaining modules hold the families.
"""

from collections.abc import Callable

FAMILIES: dict[str, "Family"] = {}


class Family:
    """One kind of attack: `work(case)` runs its case number `case.index`."""

    def __init__(self, work: Callable, share: float, quick: float | None):
        self.work, self.share, self.quick = work, share, share if quick is None else quick


def family(share: float, quick: float | None = None, name: str | None = None):
    """Registers a family. `share` is its fraction of all cases, `quick` its fraction of a quick run."""

    def register(work):
        FAMILIES[name or work.__name__] = Family(work, share, quick)
        return work

    return register


def load():
    """Imports every module that registers families."""
    from . import concurrent, files, flags, models, paths, streams, training  # noqa: F401

    return FAMILIES
