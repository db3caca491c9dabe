"""The power-cut disk, mounted: what programs, SQLite and nats-server find after a cut."""

from __future__ import annotations

import asyncio
import errno
import os
import sqlite3
import time
from collections.abc import AsyncIterator
from contextlib import closing
from pathlib import Path

import nats
import pytest

from bench.faults.powercut.disk import DiskError, PowerCutDisk
from bench.faults.powercut.names import NamesBy
from bench.faults.powercut.rules import CHANGES, Call, Rule
from bench.servers import make_nats_server

pytestmark = [
    pytest.mark.needs_fuse,
    pytest.mark.allow_blocking("the test itself writes to the disk that it mounts"),
]
WAL = "*-wal"


@pytest.fixture
async def disk(tmp_path: Path) -> AsyncIterator[PowerCutDisk]:
    async with PowerCutDisk(tmp_path / "disk", root=tmp_path / "mount") as mounted:
        yield mounted


def put(path: Path, data: bytes, *, sync: bool, sync_folder: bool = False) -> None:
    with path.open("wb") as file:
        file.write(data)
        if sync:
            file.flush()
            os.fsync(file.fileno())
    if sync_folder:
        handle = os.open(path.parent, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


async def power_cycle(disk: PowerCutDisk, *, torn_seed: int | None = None) -> None:
    await disk.cut(torn_seed=torn_seed)
    await disk.mount()


async def test_it_serves_files_and_folders_like_any_other(disk):
    root = disk.root
    (root / "f").mkdir()
    put(root / "f" / "a", b"one", sync=False)
    with (root / "f" / "a").open("r+b") as file:
        file.seek(0, os.SEEK_END)
        file.write(b" two")
        file.flush()
        (root / "f" / "a").rename(root / "b")
        assert (root / "b").read_bytes() == b"one two"
        (root / "b").unlink()
        file.seek(0)
        assert file.read() == b"one two"
    assert sorted(path.name for path in root.iterdir()) == ["f"]
    with pytest.raises(FileNotFoundError):
        (root / "b").read_bytes()
    (root / "f").rmdir()
    assert list(root.iterdir()) == []


async def test_only_what_was_synced_is_there_after_the_cut(disk):
    put(disk.root / "kept", b"old", sync=True, sync_folder=True)
    put(disk.root / "kept.new", b"new", sync=True)
    (disk.root / "kept.new").rename(disk.root / "kept")
    put(disk.root / "lost", b"lost", sync=False)
    assert (disk.root / "kept").read_bytes() == b"new"
    state = await disk.state()
    assert state.unsynced["names"] == 3
    await power_cycle(disk)
    assert {path.name: path.read_bytes() for path in disk.root.iterdir()} == {"kept": b"old"}


async def test_a_program_with_an_open_file_gets_an_error_after_the_cut(disk):
    handle = os.open(disk.root / "a", os.O_CREAT | os.O_WRONLY)
    os.write(handle, b"x")
    await disk.cut()
    with pytest.raises(OSError, match=r"not connected|aborted"):
        os.write(handle, b"y")
    with pytest.raises(OSError, match=r"not connected|aborted"):
        os.close(handle)
    await disk.mount()
    assert list(disk.root.iterdir()) == []


@pytest.mark.parametrize(("synchronous", "kept"), [("FULL", 40), ("NORMAL", 0)])
async def test_sqlite_in_wal_mode_keeps_what_its_promise_says(disk, synchronous, kept):
    path = disk.root / "a.db"
    with closing(opened(path, synchronous=synchronous)) as connection:
        connection.execute("CREATE TABLE t (x)")
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        with closing(opened(path, synchronous=synchronous)) as other:
            for number in range(40):
                connection.execute("INSERT INTO t VALUES (?)", (number,))
            assert other.execute("SELECT count(*) FROM t").fetchone() == (40,)
            await power_cycle(disk)
    with closing(opened(path, synchronous=synchronous)) as after:
        assert after.execute("SELECT count(*) FROM t").fetchone() == (kept,)
        assert after.execute("PRAGMA quick_check").fetchall() == [("ok",)]


@pytest.mark.parametrize("seed", range(4))
async def test_sqlite_survives_a_torn_tail(disk, seed):
    path = disk.root / "a.db"
    with closing(opened(path, synchronous="FULL")) as connection:
        connection.execute("CREATE TABLE t (x)")
        connection.execute("INSERT INTO t VALUES ('kept')")
        connection.execute("PRAGMA synchronous=OFF")
        for _ in range(30):
            connection.execute("INSERT INTO t VALUES (?)", ("y" * 3000,))
        await power_cycle(disk, torn_seed=seed)
    with closing(opened(path, synchronous="FULL")) as after:
        assert after.execute("SELECT count(*) FROM t WHERE x = 'kept'").fetchone() == (1,)
        assert after.execute("PRAGMA integrity_check").fetchall() == [("ok",)]


def opened(path: Path, *, synchronous: str) -> sqlite3.Connection:
    connection = sqlite3.connect(path, isolation_level=None)
    connection.execute("PRAGMA journal_mode=WAL").fetchall()
    connection.execute(f"PRAGMA synchronous={synchronous}")
    return connection


async def test_it_fails_as_the_rules_say_and_heals(disk):
    path = disk.root / "a.db"
    with closing(opened(path, synchronous="FULL")) as connection:
        connection.execute("CREATE TABLE t (x)")
        await disk.set_rules(Rule((Call.SYNC,), WAL, error="EIO"))
        with pytest.raises(sqlite3.OperationalError, match="disk I/O error"):
            connection.execute("INSERT INTO t VALUES (1)")
        await disk.set_rules(Rule((Call.WRITE,), WAL, error="ENOSPC"))
        with pytest.raises(sqlite3.OperationalError, match="full"):
            connection.execute("INSERT INTO t VALUES (2)")
        assert (await disk.state()).hits[0] >= 1
        await disk.set_rules()
        connection.execute("INSERT INTO t VALUES (3)")
        await disk.set_rules(Rule(CHANGES, error="EROFS"))
        for act in ("new", "old"):
            with pytest.raises(OSError, match="Read-only") as caught:
                put(disk.root / act, b"", sync=False)
            assert caught.value.errno == errno.EROFS
        assert connection.execute("SELECT count(*) FROM t WHERE x = 3").fetchone() == (1,)


async def test_a_slow_sync_holds_up_its_caller_and_nobody_else(disk):
    await disk.set_rules(Rule((Call.SYNC,), "/slow", delay_ms=400))
    begin_s = time.monotonic()
    slow = asyncio.create_task(asyncio.to_thread(put, disk.root / "slow", b"x", sync=True))
    await asyncio.sleep(0.05)
    await asyncio.to_thread(put, disk.root / "quick", b"x", sync=True)
    assert time.monotonic() - begin_s < 0.35
    await slow
    assert time.monotonic() - begin_s > 0.4


async def test_a_rule_that_names_no_error_is_refused(disk):
    with pytest.raises(DiskError, match="EWRONG"):
        await disk.set_rules(Rule((Call.SYNC,), error="EWRONG"))


async def test_a_folder_that_is_in_use_is_no_place_to_mount(tmp_path):
    async with PowerCutDisk(tmp_path / "one", root=tmp_path / "mount") as disk:
        with pytest.raises(DiskError, match="mounted already"):
            await disk.mount()


@pytest.mark.parametrize(("sync_always", "kept"), [(True, 100), (False, 0)])
async def test_nats_server_keeps_what_its_sync_interval_promises(tmp_path, sync_always, kept):
    server = await make_nats_server(tmp_path, sync_always=sync_always)
    async with PowerCutDisk(
        tmp_path / "disk", root=server.home / "store", names_by=NamesBy.JOURNAL
    ) as disk:
        try:
            await server.start()
            client = await nats.connect(server.url, allow_reconnect=False)
            stream = client.jetstream()
            await stream.add_stream(name="S", subjects=["s"])
            for number in range(100):
                await stream.publish("s", f"{number}".encode())
            await disk.cut()
            await server.kill()
            await client.close()
            await disk.mount()
            await server.start()
            assert await messages_in(server.url) == kept
        finally:
            await server.kill()


async def messages_in(url: str) -> int:
    client = await nats.connect(url)
    try:
        return int((await client.jetstream().stream_info("S")).state.messages)
    except nats.js.errors.NotFoundError:
        return 0
    finally:
        await client.close()
