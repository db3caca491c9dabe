"""`edge-agent` that dies at start, as native code does, for journeys only.

DIES_AT: the folder of a model package that cannot be loaded, or a spool file that cannot be opened (the
one with this inode number only: a new one can).
"""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path
from typing import Any

import edge_agent.inference.load as load_module
from edge_agent.cli import main
from edge_agent.inference.package import read_package
from edge_agent.outbox.spool import Spool

_AT = os.environ["DIES_AT"]
_read_package = read_package
_open_spool = Spool.open


def _dying_package(folder: Path) -> Any:
    if str(folder) == _AT:
        os.kill(os.getpid(), signal.SIGSEGV)
    return _read_package(folder)


def _dying_spool(path: Path, **more: Any) -> Any:
    if path.exists() and str(path.stat().st_ino) == _AT:
        os.kill(os.getpid(), signal.SIGKILL)
    return _open_spool(path, **more)


setattr(load_module, "read_package", _dying_package)  # noqa: B010 - it is no export
Spool.open = _dying_spool  # type: ignore[method-assign]
if __name__ == "__main__":
    sys.exit(main())
