"""`python -m edge_agent.rehearse.guard COMMAND…`: becomes the command, and dies with who started it.

A rehearsal that is killed leaves no server behind: the kernel kills this process when its parent ends.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys

_PR_SET_PDEATHSIG = 1


def main(arguments: list[str]) -> None:
    """Replaces this process by the command."""
    parent = os.getppid()
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, int(signal.SIGKILL), 0, 0, 0)
    if os.getppid() != parent:  # it ended before the kernel knew
        sys.exit(1)
    os.execvp(arguments[0], arguments)  # noqa: S606 - the command is ours, no shell is wanted


if __name__ == "__main__":
    main(sys.argv[1:])
