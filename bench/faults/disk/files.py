"""What a drill does to files from outside: checks copies of databases, flips bits, fills a disk."""

from __future__ import annotations

import asyncio
import os
import random
import shutil
import sqlite3
import subprocess
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing
from pathlib import Path
from typing import Any, Final

_MOUNT_S: Final = 10.0


def quick_check(folder: Path) -> list[str]:
    """What SQLite finds wrong with copies of the databases in a folder; call off the loop, nobody writing."""
    found = []
    for name in sorted(path.name for path in folder.glob("*.db")):
        try:
            rows = rows_of_copy(folder / name, "PRAGMA quick_check")
        except sqlite3.DatabaseError as error:
            rows = [(str(error),)]
        found += [f"{name}: {text}" for (text,) in rows if text != "ok"]
    return found


def rows_of_copy(path: Path, statement: str) -> list[tuple[Any, ...]]:
    """The answer of a copy of a database, its log included, so that the original stays as it is.

    Raises sqlite3.DatabaseError.
    """
    with tempfile.TemporaryDirectory(prefix="skerry-copy-") as place:
        for source in (path, path.with_name(f"{path.name}-wal")):
            if source.exists():
                shutil.copyfile(source, Path(place) / source.name)
        with closing(sqlite3.connect(Path(place) / path.name)) as connection:
            return connection.execute(statement).fetchall()


def flip_bits(path: Path, *, count: int, rng: random.Random, first: int = 0) -> list[int]:
    """Flips single bits from byte `first` on; returns the offsets."""
    size = path.stat().st_size
    offsets = [rng.randrange(first, size) for _ in range(count)]
    with path.open("r+b", buffering=0) as file:
        for offset in offsets:
            file.seek(offset)
            byte = file.read(1)[0]
            file.seek(offset)
            file.write(bytes([byte ^ 1 << rng.randrange(8)]))
    return offsets


def fill(path: Path) -> int:
    """Writes a file until the disk under it is full; returns its length."""
    written = 0
    with path.open("wb", buffering=0) as file:
        for size in (65536, 4096, 512, 1):
            try:
                while True:
                    written += file.write(bytes(size))
            except OSError:
                continue
    return written


@asynccontextmanager
async def ram_disk(root: Path, *, kib: int) -> AsyncIterator[None]:
    """A file system of that size at `root` for the length of the block; needs root."""
    await asyncio.to_thread(root.mkdir, parents=True, exist_ok=True)
    await _run("mount", "-t", "tmpfs", "-o", f"size={kib}k", "skerry-drill", str(root))
    try:
        yield
    finally:
        await _run("umount", "-l", str(root))


async def _run(*command: str) -> None:
    done = await asyncio.to_thread(
        subprocess.run, command, check=False, capture_output=True, timeout=_MOUNT_S
    )
    if done.returncode:
        raise OSError(f"{' '.join(command)}: {os.fsdecode(done.stderr).strip()}")
