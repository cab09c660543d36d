"""The output of `verbose=1`: a progress bar for every stage if tqdm is installed, else lines on stderr."""

from __future__ import annotations

import sys
import time
from typing import Any

STAGES = {"pretrain": "pretraining", "mixture": "starting the mixture", "joint": "joint training"}
BETWEEN_LINES = 2.0  # seconds


class Bars:
    """A callback that draws progress bars; tqdm chooses a form for terminals or notebooks."""

    def __init__(self) -> None:
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
    """A callback that occasionally writes a line."""

    def __init__(self) -> None:
        self._stage = ""
        self._epochs = 0
        self._last = 0.0

    def __call__(self, event: dict[str, Any]) -> None:
        kind = event["event"]
        if kind == "stage-started":
            self._stage, self._epochs = title(event), event["epochs"]
            self._write(self._stage)
        elif kind == "described":
            self._write(event["description"])
        elif kind in ("pretrained", "trained") and (
            time.monotonic() - self._last >= BETWEEN_LINES or event["epoch"] == self._epochs
        ):
            self._write(f"{self._stage}: epoch {event['epoch']} of {self._epochs}, {figure(event)}")

    def _write(self, line: str) -> None:
        self._last = time.monotonic()
        print(line, file=sys.stderr, flush=True)

    def close(self) -> None:
        """Nothing to close."""


def shown() -> Bars | Lines:
    """Bars if tqdm is installed, else lines."""
    try:
        return Bars()
    except ImportError:
        return Lines()


def title(event: dict[str, Any]) -> str:
    """The name of the stage."""
    name = STAGES[event["stage"]]
    return f"{name}, {event['phase']}" if event["phase"].startswith("layer") else name


def figure(event: dict[str, Any]) -> str:
    """The loss or the ELBO of an epoch."""
    return f"loss {event['loss']:.3f}" if event["event"] == "pretrained" else f"elbo {event['elbo']:.3f}"
