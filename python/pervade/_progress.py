"""The output of `verbose=1`: a progress bar for every stage if tqdm is installed, else lines on stderr."""

from __future__ import annotations

import json
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

STAGES = {"pretrain": "pretraining", "mixture": "starting the mixture", "joint": "joint training"}
# Seconds between lines, and between changes of a line that is rewritten.
BETWEEN_LINES, BETWEEN_CHANGES = 2.0, 0.2
# A map is laid out in percent.
MAP_BAR = "{l_bar}{bar}| {elapsed}<{remaining}"


class Bars:
    """A callback that draws progress bars; tqdm chooses a form for terminals or notebooks."""

    def __init__(self) -> None:
        with warnings.catch_warnings():
            # In a notebook without ipywidgets it warns, and draws bars of text.
            warnings.simplefilter("ignore")
            from tqdm.auto import tqdm

        self._tqdm = tqdm
        self._bar: Any = None
        self._epoch = 0
        self._steps = 0

    def __call__(self, event: dict[str, Any]) -> None:
        kind = event["event"]
        if kind == "stage-started":
            self.close()
            self._epoch, self._steps = event["done"], event["steps"]
            total = event["epochs"] * event["steps"] or None
            self._bar = self._tqdm(desc=title(event), total=total, unit="step", initial=self._epoch * self._steps)
        elif kind == "layout-started":
            self.close()
            self._bar = self._tqdm(desc="map", total=100, bar_format=MAP_BAR)
        elif kind == "layout":
            self._move(percent(event))
        elif kind == "restarts-started":
            self._bar = self._tqdm(desc="restarts", total=event["restarts"], unit="restart")
        elif kind == "restart-ended":
            self._move(event["done"])
        elif kind == "described":
            self._tqdm.write(event["description"], file=sys.stderr)
        elif kind == "steps":
            self._move(self._epoch * self._steps + event["done"])
        elif kind in ("pretrained", "trained"):
            self._epoch = event["epoch"]
            self._move(self._epoch * self._steps)
            self._bar.set_postfix_str(figure(event), refresh=False)
        elif kind == "working" and self._bar is not None:
            self._bar.refresh()  # keeps the clock moving while there are no steps
        elif kind == "stage-ended":
            self.close()

    def _move(self, done: int) -> None:
        # Restarts that are trained in parallel report the same epoch one after the other.
        self._bar.update(max(done - self._bar.n, 0))

    def close(self) -> None:
        """Closes the current bar."""
        if self._bar is not None:
            self._bar.close()
            self._bar = None


class Lines:
    """A callback that writes lines: in a terminal or a notebook one per stage, which is rewritten, else one now and then."""

    def __init__(self) -> None:
        self._stage = ""
        self._epochs = 0
        self._last = 0.0
        self._rewrites = sys.stderr.isatty() or is_notebook(sys.stderr)
        self._width = 0  # of the line that can be rewritten

    def __call__(self, event: dict[str, Any]) -> None:
        kind = event["event"]
        if kind in ("stage-started", "layout-started"):
            self.close()
            self._stage, self._epochs = ("map", 100) if kind == "layout-started" else (title(event), event["epochs"])
            self._write(self._stage)
        elif kind == "described":
            self._write(event["description"])
            self.close()
        elif kind in ("pretrained", "trained") and self._is_due(event["epoch"]):
            self._write(f"{self._stage}: epoch {event['epoch']} of {self._epochs}, {figure(event)}")
        elif kind == "layout" and self._is_due(percent(event)):
            self._write(f"{self._stage}: {percent(event)} %")
        elif kind == "restarts-started":
            self._write(f"{event['restarts']} restarts, trained by workers of joblib")
        elif kind == "restart-ended":
            self._write(f"restarts: {event['done']} of {event['restarts']}")

    def _is_due(self, done: int) -> bool:
        between = BETWEEN_CHANGES if self._rewrites else BETWEEN_LINES
        return time.monotonic() - self._last >= between or done == self._epochs

    def _write(self, line: str) -> None:
        self._last = time.monotonic()
        if self._rewrites:
            print("\r" + line.ljust(self._width), end="", file=sys.stderr, flush=True)
            self._width = len(line)
        else:
            print(line, file=sys.stderr, flush=True)

    def close(self) -> None:
        """Ends the line that can be rewritten."""
        if self._width > 0:
            print(file=sys.stderr, flush=True)
            self._width = 0


def shown() -> Bars | Lines:
    """Bars if tqdm is installed, else lines."""
    try:
        return Bars()
    except ImportError:
        return Lines()


@contextmanager
def followed(verbose: int) -> Iterator[Callable[[str], None] | None]:
    """A listener for events in JSON that shows progress; None if nothing is to be shown."""
    if not verbose:
        yield None
        return
    bars = shown()
    try:
        yield lambda event: bars(json.loads(event))
    finally:
        bars.close()


def is_notebook(stream: Any) -> bool:
    """Whether the text goes to a notebook, which rewrites a line after a carriage return."""
    return type(stream).__module__.partition(".")[0] == "ipykernel"


def title(event: dict[str, Any]) -> str:
    """The name of the stage."""
    name = STAGES[event["stage"]]
    return f"{name}, {event['phase']}" if event["phase"].startswith("layer") else name


def figure(event: dict[str, Any]) -> str:
    """The loss or the ELBO of an epoch."""
    return f"loss {event['loss']:.3f}" if event["event"] == "pretrained" else f"elbo {event['elbo']:.3f}"


def percent(event: dict[str, Any]) -> int:
    """How much of a map is laid out."""
    return int(100 * event["share"])
