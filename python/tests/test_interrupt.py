"""Ctrl-C ends a fit within a second, in every stage, and leaves the estimator usable."""

import os
import signal
import subprocess
import sys
import time

import numpy as np
import pytest
from common import FIT_AND_TELL, seconds_to_interrupt

FIT = """
import sys, time
import numpy as np
from sklearn.exceptions import NotFittedError
from pervade import VaDE
X = np.random.default_rng(0).random((30_000, 100), dtype=np.float32)
def tell(event):
    if event["event"] == "stage-started":
        print(event["stage"], flush=True)
vade = VaDE(8, random_state=0, device="cpu", callback=tell, n_components=150, latents=10, mixture_starts=20,
            **(dict(hidden=(64,), pretrain_epochs=1) if sys.argv[1] == "mixture" else
               dict(hidden=(500, 500, 2000)) if sys.argv[1] == "pretrain" else
               dict(hidden=(500, 500, 500), pretrain_epochs=0, n_init=1, graph_rows=1000)))
if sys.argv[1] == "joint":
    vade.set_params(n_components=8, mixture_starts=1)
""" + FIT_AND_TELL + """
vade.set_params(hidden=(4,), latents=2, epochs=1, pretrain_epochs=1, n_components=8, mixture_starts=1, callback=None)
print(vade.fit(X[:300]).labels_.shape, flush=True)
"""


@pytest.mark.skipif(os.name == "nt", reason="signals of this kind are Unix's")
@pytest.mark.parametrize("stage", ["pretrain", "mixture", "joint"])
def test_ctrl_c(stage):
    # Retried once, in case the machine is busy.
    assert interrupted(stage) < 1.0 or interrupted(stage) < 1.0


def interrupted(stage):
    """Seconds from Ctrl-C to the exception."""
    child = subprocess.Popen([sys.executable, "-c", FIT, stage], stdout=subprocess.PIPE, text=True)
    for line in child.stdout:
        if line.strip() == stage:
            break
    time.sleep(0.7)
    return seconds_to_interrupt(child, lambda: child.send_signal(signal.SIGINT), "unfitted", "(300,)")


SHOW = """
import sys
import numpy as np
from pervade import VaDE
X = np.random.default_rng(0).random((40_000, 12), dtype=np.float32)
vade = VaDE(8, random_state=0, device="cpu", hidden=(8,), latents=8, epochs=1, pretrain_epochs=1, n_components=8,
            mixture_starts=1, graph_rows=1000).fit(X)
print("fitted", flush=True)
try:
    getattr(vade, sys.argv[1])(X)
    print("finished", flush=True)
except KeyboardInterrupt:
    print("interrupted", flush=True)
print(vade.map(X[:100]).shape, flush=True)
"""


@pytest.mark.skipif(os.name == "nt", reason="signals of this kind are Unix's")
@pytest.mark.parametrize("method", ["map", "report"])
def test_ctrl_c_of_a_layout(method):
    # Retried once, in case the machine is busy.
    assert interrupted_layout(method) < 1.0 or interrupted_layout(method) < 1.0


def interrupted_layout(method):
    """Seconds from Ctrl-C to the exception."""
    child = subprocess.Popen([sys.executable, "-c", SHOW, method], stdout=subprocess.PIPE, text=True)
    assert child.stdout.readline().strip() == "fitted"
    time.sleep(1.5)
    return seconds_to_interrupt(child, lambda: child.send_signal(signal.SIGINT), "(100, 2)")


@pytest.mark.skipif(os.name == "nt", reason="signals of this kind are Unix's")
def test_ctrl_c_of_the_command(tmp_path):
    np.save(tmp_path / "x.npy", np.random.default_rng(0).random((20_000, 200), dtype=np.float32))
    child = subprocess.Popen(
        [sys.executable, "-m", "pervade", "fit", "x.npy", "-k", "4", "--checkpoint", "none", "--device", "cpu"],
        cwd=tmp_path, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert "x.npy" in child.stderr.readline()
    time.sleep(1.0)
    asked = time.monotonic()
    child.send_signal(signal.SIGINT)
    assert child.wait(timeout=10) == 130
    assert time.monotonic() - asked < 1.5
    assert not (tmp_path / "x.pervade").exists()
