"""The disk as a program; see the package's docstring."""

from __future__ import annotations

import argparse
from pathlib import Path
from threading import Lock

from bench.faults.powercut.control import listen
from bench.faults.powercut.mount import Filesystem, serve
from bench.faults.powercut.names import NamesBy
from bench.faults.powercut.rules import Rules
from bench.faults.powercut.volume import Volume


def main() -> None:
    """Mounts the disk and serves it until it is unmounted or killed."""
    parser = argparse.ArgumentParser(prog="python -m bench.faults.powercut", description=__doc__)
    parser.add_argument("mount", type=Path, help="an existing empty folder")
    parser.add_argument("store", type=Path, help="where what is durable is kept")
    parser.add_argument("control", type=Path, help="the Unix socket to make (at most 107 bytes)")
    parser.add_argument("--names-by", type=NamesBy, choices=list(NamesBy), default=NamesBy.FOLDER)
    parser.add_argument("--capacity-mib", type=int, default=512)
    options = parser.parse_args()
    volume = Volume(
        options.store, names_by=options.names_by, capacity_bytes=options.capacity_mib << 20
    )
    rules, lock = Rules(), Lock()
    listen(options.control, volume=volume, rules=rules, lock=lock)
    serve(Filesystem(volume, rules, lock), options.mount)


if __name__ == "__main__":
    main()
