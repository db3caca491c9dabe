import pytest

from edge_agent.readings.topics import match_levels, may_name, stream_name


def named(template: str, pattern: str, topic: str) -> str:
    matched = match_levels(pattern, topic)
    assert matched is not None
    return stream_name(template, pattern, topic, matched)


@pytest.mark.parametrize(
    ("pattern", "topic", "matched"),
    [
        ("a/b", "a/b", ()),
        ("a/+", "a/b", ("b",)),
        ("a/+", "a/", ("",)),
        ("+/+", "/b", ("", "b")),
        ("a/#", "a/b/c", ("b/c",)),
        ("a/#", "a", ("",)),
        ("a/+/#", "a/b", ("b", "")),
        ("#", "a/b", ("a/b",)),
        ("$SYS/#", "$SYS/x", ("x",)),
    ],
)
def test_a_match_says_what_the_wildcards_stood_for(pattern, topic, matched):
    assert match_levels(pattern, topic) == matched


@pytest.mark.parametrize(
    ("pattern", "topic"),
    [
        ("a/b", "a/b/c"),
        ("a/b/c", "a/b"),
        ("a/+", "a"),
        ("a/+", "a/b/c"),
        ("a", "A"),
        ("a/#", "ab"),
        ("#", "$SYS/x"),
        ("+/x", "$SYS/x"),
        ("a", "a/"),
        ("", "a"),
    ],
)
def test_what_does_not_match_is_none(pattern, topic):
    assert match_levels(pattern, topic) is None


@pytest.mark.parametrize(
    ("template", "pattern", "topic", "name"),
    [
        ("pump", "a/b", "a/b", "pump"),
        ("pump", "a/+", "a/b", "pump/b"),
        ("pump", "+/x/+", "a/x/b", "pump/a/b"),
        ("pump", "a/#", "a/b/c", "pump/b/c"),
        ("pump", "a/#", "a", "pump"),
        ("pump", "a/#", "a/", "pump/%"),
        ("pump/{1}", "a/+", "a/b", "pump/b"),
        ("{2}-{0}", "a/+/+", "a/b/c", "c-a"),
        ("pump", "a/+", "a/hall 2", "pump/hall%202"),
        ("pump", "a/+", "a/100%", "pump/100%25"),
        ("pump", "a/+", "a/{1}", "pump/%7B1%7D"),
        ("{1}/{2}", "a/+/+", "a/{2}/x", "%7B2%7D/x"),
        ("pump", "a/+", "a/Küche", "pump/Küche"),
        ("{1}", "a/+", "a/", "%"),
    ],
)
def test_a_stream_is_named_after_its_topic(template, pattern, topic, name):
    assert named(template, pattern, topic) == name
    assert may_name(template, pattern, name)


@pytest.mark.parametrize(
    ("one", "other"),
    [("a/b c", "a/b_c"), ("a/b c", "a/b\tc"), ("a/", "a/_"), ("a/", "a/%"), ("a/%20", "a/ ")],
)
def test_topics_that_look_alike_stay_two_streams(one, other):
    for template in ("pump", "pump/{1}"):
        assert named(template, "a/+", one) != named(template, "a/+", other)


def test_an_empty_level_is_not_left_out():
    assert named("s", "a/+/+", "a//b") != named("s", "a/+/+", "a/b/")


@pytest.mark.parametrize(
    ("template", "pattern", "name"),
    [
        ("pump", "a/b", "pump/x"),
        ("pump", "a/+", "pump2/x"),
        ("pump", "a/+", "pump/x/y"),
        ("pump", "a/+", "pump"),
        ("pump/{1}", "a/b", "pump/c"),
        ("{1}x", "a/+", "y"),
    ],
)
def test_a_name_that_no_topic_could_have_led_to_is_known(template, pattern, name):
    assert not may_name(template, pattern, name)
