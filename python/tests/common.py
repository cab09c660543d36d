"""Shared by tests and fixtures."""

import time

# Settings that fit three blobs well, in half a second.
GOOD = {"hidden": (64,), "pretrain_batch": 32, "batch": 32, "pretrain_epochs": 150, "epochs": 20}
# Settings that fit almost instantly.
SMALL = {
    "hidden": (16,), "latents": 2, "pretrain_epochs": 20, "mixture_starts": 2, "epochs": 2, "random_state": 0, "device": "cpu"
}  # fmt: skip

# The part of a script that fits `vade` to `X` and says how that ended.
FIT_AND_TELL = """
try:
    vade.fit(X)
    print("finished", flush=True)
except KeyboardInterrupt:
    print("interrupted", flush=True)
try:
    vade.predict(X)
except NotFittedError:
    print("unfitted", flush=True)
"""


def seconds_to_interrupt(child, interrupt, *lines):
    """Seconds from Ctrl-C, sent by `interrupt`, to the exception; then the script must print `lines` and end well."""
    asked = time.monotonic()
    interrupt()
    assert child.stdout.readline().strip() == "interrupted"
    took = time.monotonic() - asked
    for line in lines:
        assert child.stdout.readline().strip() == line
    assert child.wait(timeout=30) == 0
    return took
