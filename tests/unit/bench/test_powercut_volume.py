"""The volume without FUSE: what a power cut leaves is what was synced."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from bench.faults.powercut.content import PAGE_BYTES
from bench.faults.powercut.names import NamesBy
from bench.faults.powercut.rules import Call, Rule, Rules
from bench.faults.powercut.volume import Volume


def volume(store: Path, *, names_by: NamesBy = NamesBy.FOLDER, capacity: int = 1 << 20) -> Volume:
    """The volume as it is after a cut: only the store is left of the one before."""
    return Volume(store, names_by=names_by, capacity_bytes=capacity)


def text_of(found: Volume, path: str) -> bytes:
    number, _, length = found.node(path)
    return found.read(number, offset=0, size=length)


def names_of(found: Volume, path: str = "/") -> set[str]:
    return {name for name, _, _ in found.listing(path)} - {".", ".."}


def made(found: Volume, path: str, data: bytes) -> int:
    number = found.create(path, 0o644)
    found.write(number, data, offset=0)
    return number


def synced(found: Volume, path: str, data: bytes) -> int:
    number = made(found, path, data)
    found.sync(number)
    found.sync_folder("/")
    return number


def test_what_was_synced_is_there_after_a_cut(tmp_path):
    synced(volume(tmp_path), "/a", b"kept")
    assert text_of(volume(tmp_path), "/a") == b"kept"


def test_what_was_not_synced_is_gone(tmp_path):
    before = volume(tmp_path)
    number = synced(before, "/a", b"kept")
    before.write(number, b"lost", offset=0)
    before.write(number, b"longer", offset=4)
    assert text_of(before, "/a") == b"lostlonger"
    assert text_of(volume(tmp_path), "/a") == b"kept"


def test_a_synced_file_without_a_synced_name_is_gone(tmp_path):
    before = volume(tmp_path)
    before.sync(made(before, "/a", b"kept"))
    after = volume(tmp_path)
    assert names_of(after) == set()
    assert after.used_bytes == 0
    assert list((tmp_path / "content").iterdir()) == []


def test_a_synced_name_of_an_unsynced_file_is_an_empty_file(tmp_path):
    before = volume(tmp_path)
    made(before, "/a", b"lost")
    before.sync_folder("/")
    assert text_of(volume(tmp_path), "/a") == b""


def test_like_a_journal_the_sync_of_any_file_keeps_all_names(tmp_path):
    before = volume(tmp_path, names_by=NamesBy.JOURNAL)
    before.make_folder("/f", 0o755)
    made(before, "/f/other", b"lost")
    before.sync(made(before, "/a", b"kept"))
    after = volume(tmp_path)
    assert names_of(after) == {"f", "a"}
    assert text_of(after, "/f/other") == b""


def test_a_rename_without_a_sync_of_the_folder_is_taken_back(tmp_path):
    before = volume(tmp_path)
    synced(before, "/a", b"old")
    synced(before, "/new", b"new")
    before.rename("/new", "/a")
    assert text_of(before, "/a") == b"new"
    after = volume(tmp_path)
    assert (text_of(after, "/a"), text_of(after, "/new")) == (b"old", b"new")
    after.rename("/new", "/a")
    after.sync_folder("/")
    assert text_of(volume(tmp_path), "/a") == b"new"
    assert names_of(volume(tmp_path)) == {"a"}


def test_a_removed_name_comes_back_until_the_folder_is_synced(tmp_path):
    before = volume(tmp_path)
    synced(before, "/a", b"kept")
    before.release(1 + 1)
    before.remove("/a")
    assert text_of(volume(tmp_path), "/a") == b"kept"
    before.sync_folder("/")
    assert names_of(volume(tmp_path)) == set()
    assert list((tmp_path / "content").iterdir()) == []


def test_a_file_removed_while_open_lives_until_it_is_closed(tmp_path):
    before = volume(tmp_path)
    number = synced(before, "/a", b"kept")
    before.rename("/a", "/.fuse_hidden01")
    before.sync_folder("/")
    assert before.read(number, offset=0, size=9) == b"kept"
    assert names_of(volume(tmp_path)) == set()


def test_the_sync_of_one_folder_leaves_later_changes_of_another_unsynced(tmp_path):
    before = volume(tmp_path)
    before.make_folder("/f", 0o755)
    before.make_folder("/g", 0o755)
    before.sync_folder("/")
    made(before, "/f/a", b"")
    made(before, "/g/b", b"")
    before.sync_folder("/f")
    after = volume(tmp_path)
    assert (names_of(after, "/f"), names_of(after, "/g")) == ({"a"}, set())


def test_a_file_cut_off_and_lengthened_again_reads_zeros_between(tmp_path):
    before = volume(tmp_path)
    number = synced(before, "/a", b"x" * (3 * PAGE_BYTES))
    before.resize(number, 5)
    before.write(number, b"end", offset=2 * PAGE_BYTES)
    wanted = b"xxxxx".ljust(2 * PAGE_BYTES, b"\0") + b"end"
    assert text_of(before, "/a") == wanted
    assert text_of(volume(tmp_path), "/a") == b"x" * (3 * PAGE_BYTES)
    before.sync(number)
    assert text_of(volume(tmp_path), "/a") == wanted


def test_after_a_failed_sync_the_next_one_succeeds_and_stores_nothing(tmp_path):
    before = volume(tmp_path)
    number = synced(before, "/a", b"kept")
    before.write(number, b"lost", offset=0)
    before.abandon(number)
    before.sync(number)
    assert text_of(before, "/a") == b"lost"
    assert text_of(volume(tmp_path), "/a") == b"kept"


def test_allocated_space_counts_and_reads_as_zeros(tmp_path):
    before = volume(tmp_path, capacity=100)
    number = synced(before, "/a", b"kept")
    before.allocate(number, 8)
    before.allocate(number, 2)
    assert text_of(before, "/a") == b"kept\0\0\0\0"
    with pytest.raises(OSError, match="full"):
        before.allocate(number, 101)


def test_a_torn_cut_keeps_whole_pages_but_one(tmp_path):
    outcomes = set()
    for seed in range(40):
        store = tmp_path / str(seed)
        before = volume(store)
        number = synced(before, "/a", b"o" * (4 * PAGE_BYTES))
        before.write(number, b"n" * (4 * PAGE_BYTES), offset=0)
        before.tear(random.Random(seed))
        found = text_of(volume(store), "/a")
        assert set(found) <= set(b"on")
        assert len(found) == 4 * PAGE_BYTES
        torn = [
            page for page in range(4)
            if len(set(found[page * PAGE_BYTES : (page + 1) * PAGE_BYTES])) > 1
        ]  # fmt: skip
        assert len(torn) <= 1
        outcomes.add(found)
    assert len(outcomes) > 10


def test_a_torn_cut_keeps_the_oldest_names(tmp_path):
    kept = set()
    for seed in range(30):
        before = volume(tmp_path / str(seed))
        for name in "abc":
            made(before, f"/{name}", b"")
        before.tear(random.Random(seed))
        kept.add("".join(sorted(names_of(volume(tmp_path / str(seed))))))
    assert kept == {"", "a", "ab", "abc"}


def test_a_full_volume_says_so_and_takes_more_once_there_is_room(tmp_path):
    before = volume(tmp_path, capacity=100)
    number = made(before, "/a", b"x" * 90)
    with pytest.raises(OSError, match="full"):
        before.write(number, b"x" * 20, offset=90)
    before.resize(number, 10)
    before.write(number, b"x" * 90, offset=10)
    assert before.used_bytes == 100


def test_a_rule_holds_after_so_many_calls_and_so_often():
    rules = Rules()
    rules.replace((Rule((Call.SYNC,), "*-wal", error="EIO", after=1, times=2, delay_ms=4),))
    judged = [rules.judge(Call.SYNC, "/data/spool.db-wal") for _ in range(5)]
    assert [(delay, error and error.errno) for delay, error in judged] == [
        (0.0, None), (0.004, 5), (0.004, 5), (0.0, None), (0.0, None),
    ]  # fmt: skip
    assert rules.hits() == [2]
    assert rules.judge(Call.WRITE, "/data/spool.db-wal") == (0.0, None)
    assert rules.counts()["sync"] == 5
