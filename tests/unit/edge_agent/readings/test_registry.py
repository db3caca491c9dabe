import contextlib
import sys
from typing import Any

import pytest

from edge_agent.errors import ConfigurationError
from edge_agent.readings.registry import Registry, TooManyStreams, make_kind
from edge_agent.settings import StreamSettings
from tests.fakes.settings import stream


def registry(*tables: dict[str, Any], most: int = 10) -> Registry:
    kinds = [make_kind(n, StreamSettings(**table), None) for n, table in enumerate(tables)]
    return Registry(kinds, max_streams=most)


def test_a_topic_feeds_the_streams_that_claim_it():
    known = registry(stream("pump", "a/+"), stream("all", "#"), stream("other", "b"))
    assert known.plan("a/1") == ((0, 0), (1, 0))
    assert known.plan("a/2") == ((0, 1), (1, 1))
    assert known.plan("a/1") == ((0, 0), (1, 0))
    assert known.name(0, 1) == "pump/2"
    assert known.find("all/a/2") == (1, 1)
    assert known.count == 4
    assert known.names() == ["pump/1", "all/a/1", "pump/2", "all/a/2"]


def test_a_topic_that_nobody_claims_feeds_nothing():
    known = registry(stream("pump", "a/+"))
    assert known.plan("b/1") == ()
    assert known.find("b/1") is None


def test_two_topics_share_a_stream_only_if_the_table_says_so():
    known = registry(stream("line-{1}", "a/+/+"))
    assert known.plan("a/1/x") == known.plan("a/1/y") == ((0, 0),)


def test_streams_beyond_the_limit_are_refused_and_those_before_it_go_on():
    known = registry(stream("pump", "a/+"), most=2)
    known.plan("a/1")
    known.plan("a/2")
    for _ in range(2):
        with pytest.raises(TooManyStreams):
            known.plan("a/3")
    assert known.plan("a/1") == ((0, 0),)
    assert known.count == 2


def test_a_storm_of_topics_does_not_grow_memory():
    known = registry(stream("pump", "a/+"), most=2)
    known.plan("a/1")
    for n in range(20_000):
        assert known.plan(f"nobody/{n}") == ()
    assert len(known._plans) <= 2 * 2 + 1024
    assert sys.getsizeof(known._plans) < 200_000
    assert known.plan("a/1") == ((0, 0),)
    for n in range(2, 5000):
        with contextlib.suppress(TooManyStreams):
            known.plan(f"a/{n}")
    assert known.count == 2
    assert len(known._plans) <= 2 * 2 + 1024


def test_two_tables_that_lead_to_one_name_are_refused_with_both_names():
    known = registry(stream("pump", "a/+"), stream("pump/{1}", "b/+"))
    known.plan("a/1")
    with pytest.raises(ConfigurationError, match=r"'pump'.*'pump/\{1\}'"):
        known.plan("b/1")
    assert known.plan("b/2") == ((1, 0),)


def test_a_stored_stream_finds_its_table_again():
    channels = ("flow",)
    known = registry(stream("pump", "a/+"), stream("pump2", "b/+"), stream("{1}", "c/+"))
    assert known.kind_of("pump2/x", channels) == 1
    assert known.kind_of("pump/x", channels) == 0
    assert known.kind_of("anything", channels) == 2
    assert known.kind_of("any/thing", channels) is None


def test_a_table_that_is_named_is_taken_before_one_that_looks_alike():
    known = registry(stream("{1}", "a/+"), stream("flow", "b"))
    assert known.kind_of("flow", ("flow",)) == 1
    assert known.kind_of("flow", ("flow",), table="{1}") == 0
    assert known.kind_of("flow", ("flow",), table="gone") is None


def test_a_stored_stream_with_other_channels_has_no_table():
    known = registry(stream("pump", "a/+"))
    assert known.kind_of("pump/x", ("flow", "temp")) is None
    known.plan("a/x")
    assert known.kind_of("pump/x", ("flow", "temp")) is None
    assert known.kind_of("pump/x", ("flow",)) == 0


def test_the_window_is_the_models_unless_the_table_agrees_or_is_silent():
    assert make_kind(0, StreamSettings(**stream()), None).window == 1
    assert make_kind(0, StreamSettings(**stream(window=5, hop=2)), None).hop == 2
    kind = make_kind(0, StreamSettings(**stream(model="m")), (12, 3))
    assert (kind.window, kind.hop) == (12, 3)
    kind = make_kind(0, StreamSettings(**stream(model="m", window=12, hop=1)), (12, 3))
    assert (kind.window, kind.hop) == (12, 1)
    with pytest.raises(ConfigurationError, match=r"'pump'.*window = 8.*'m'.*12"):
        make_kind(0, StreamSettings(**stream(model="m", window=8)), (12, 3))
