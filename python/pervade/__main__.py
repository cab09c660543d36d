"""The command line: `python -m pervade` is the command `pervade`."""

import signal
import sys

from pervade import _core


def main() -> int:
    """Run the command with the arguments of this process.

    Returns
    -------
    int
        0 for success, 1 if a requested check failed, 2 if the command could not run.
    """
    # Python would only record Ctrl-C and keep waiting; the command needs the system's default handler
    # wherever it installs none itself.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    return _core.run(["pervade", *sys.argv[1:]])


if __name__ == "__main__":
    sys.exit(main())
