"""The filters of the past: kept in a file that is never half written, and told apart from today's."""

from __future__ import annotations

from pathlib import Path

import pytest

from edge_agent.agent.subscriptions import (
    FILE,
    MOST_BYTES,
    read_subscriptions,
    save_subscriptions,
    unwanted,
)


def test_what_was_saved_is_read_again_and_replaces_what_was_before(tmp_path: Path) -> None:
    save_subscriptions(tmp_path, {"here": ["a/#", "b/+"]})
    save_subscriptions(tmp_path, {"here": ["a/#"], "there": []})
    assert read_subscriptions(tmp_path) == {"here": ["a/#"], "there": []}
    assert [each.name for each in tmp_path.iterdir()] == [FILE]


@pytest.mark.parametrize(
    "content", [b"", b"{", b"[]", b'{"here": [1]}', b"\xff", b" " * MOST_BYTES + b"{}"]
)
def test_a_file_that_cannot_be_read_means_nothing(tmp_path: Path, content: bytes) -> None:
    (tmp_path / FILE).write_bytes(content)
    assert read_subscriptions(tmp_path) == {}


def test_no_file_means_nothing(tmp_path: Path) -> None:
    assert read_subscriptions(tmp_path) == {}


def test_only_filters_that_nobody_wants_any_more_are_unwanted_by_session() -> None:
    known = {"here": ["a/#", "b/+"], "gone": ["c"]}
    assert unwanted(known, {"here": ["b/+", "d"], "new": ["a/#"]}) == {"here": ["a/#"], "new": []}
