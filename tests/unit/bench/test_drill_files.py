"""What drills on disks do to files from outside."""

from __future__ import annotations

import random
import sqlite3
from contextlib import closing

from bench.faults.disk.files import flip_bits, quick_check, rows_of_copy
from bench.faults.disk.watching import said_in


def made(path, rows: int = 200) -> None:
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("PRAGMA journal_mode=WAL").fetchall()
        connection.execute("CREATE TABLE t (x)")
        connection.executemany("INSERT INTO t VALUES (?)", [("y" * 500,) for _ in range(rows)])


def test_a_copy_is_asked_and_the_original_stays_as_it_is(tmp_path):
    path = tmp_path / "a.db"
    with closing(sqlite3.connect(path, isolation_level=None)) as holder:
        holder.execute("PRAGMA journal_mode=WAL").fetchall()
        holder.execute("CREATE TABLE t (x)")
        holder.execute("INSERT INTO t VALUES (1)")
        before = {one.name: one.read_bytes() for one in tmp_path.iterdir()}
        assert rows_of_copy(path, "SELECT x FROM t") == [(1,)]
        assert {one.name: one.read_bytes() for one in tmp_path.iterdir()} == before


def test_a_sound_database_passes_and_a_damaged_one_is_named(tmp_path):
    made(tmp_path / "sound.db")
    assert quick_check(tmp_path) == []
    made(tmp_path / "bad.db")
    path = tmp_path / "bad.db"
    data = bytearray(path.read_bytes())
    data[8192:8300] = bytes(108)
    path.write_bytes(bytes(data))
    (tmp_path / "worse.db").write_bytes(b"no database at all" * 100)
    found = quick_check(tmp_path)
    assert {text.split(":")[0] for text in found} == {"bad.db", "worse.db"}


def test_exactly_the_bits_that_are_told_flip_and_a_seed_flips_them_again(tmp_path):
    one, two = tmp_path / "1", tmp_path / "2"
    for path in (one, two):
        path.write_bytes(bytes(10_000))
    offsets = flip_bits(one, count=3, rng=random.Random(5), first=100)
    assert offsets == flip_bits(two, count=3, rng=random.Random(5), first=100)
    data = one.read_bytes()
    assert data == two.read_bytes()
    assert sum(byte.bit_count() for byte in data) == 3
    assert {index for index, byte in enumerate(data) if byte} == set(offsets)
    assert min(offsets) >= 100


def test_a_traceback_in_a_log_is_passed_over(tmp_path):
    log = tmp_path / "agent.log"
    log.write_text('{"event": "a"}\nTraceback (most recent call last):\n{"event": "b"}\n')
    assert [line["event"] for line in said_in(log)] == ["a", "b"]
