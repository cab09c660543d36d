"""The command line: `python -m pervade` is the command `pervade`."""

import signal
import sys

from pervade import _core


def main() -> int:
    """Run the command with the arguments of this process.

    Returns
    -------
    int
        0 done, 1 a stated check failed, 2 could not run.
    """
    # Python would only note Ctrl-C and go on waiting; the command wants the system's own behaviour
    # where it sets none itself.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    return _core.run(["pervade", *sys.argv[1:]])


if __name__ == "__main__":
    sys.exit(main())
