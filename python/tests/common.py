"""Shared by tests and fixtures."""

# Settings that fit three blobs well, in half a second.
GOOD = {"hidden": (64,), "pretrain_batch": 32, "batch": 32, "pretrain_epochs": 150, "epochs": 20}
# Settings that fit almost instantly.
SMALL = {"hidden": (16,), "latents": 2, "pretrain_epochs": 20, "epochs": 2, "random_state": 0, "device": "cpu"}
