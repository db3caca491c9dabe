from hypothesis import example, given
from hypothesis import strategies as st
from paho.mqtt.client import topic_matches_sub

from edge_agent.readings.topics import match_levels, may_name, stream_name

LEVELS = st.sampled_from(["", "a", "b", "_", "%", " ", "$SYS", "ä", "a b", "{0}", "{1}"])
TOPICS = st.lists(LEVELS, min_size=1, max_size=4).map("/".join).filter(len)
FILTERS = (
    st.tuples(st.lists(LEVELS | st.just("+"), max_size=4), st.sampled_from([[], ["#"]]))
    .map(lambda parts: "/".join(parts[0] + parts[1]))
    .filter(len)
)


@given(FILTERS, TOPICS)
@example("a/#", "a")
@example("#", "$SYS/a")
@example("+/a", "$SYS/a")
def test_a_filter_matches_what_mqtt_says_it_matches(pattern, topic):
    assert (match_levels(pattern, topic) is not None) == topic_matches_sub(pattern, topic)


@given(FILTERS, TOPICS, TOPICS)
@example("a/+", "a/b c", "a/b_c")
@example("a/#", "a", "a/")
@example("+/+", "/a", "a/")
@example("#", "a//b", "a/b")
def test_two_topics_never_share_a_stream_by_accident(pattern, one, other):
    first, second = match_levels(pattern, one), match_levels(pattern, other)
    if first is None or second is None or one == other:
        return
    assert stream_name("s", pattern, one, first) != stream_name("s", pattern, other, second)


@given(FILTERS, TOPICS, TOPICS, st.integers(0, 3))
def test_a_place_in_the_name_tells_its_level_apart(pattern, one, other, place):
    first, second = match_levels(pattern, one), match_levels(pattern, other)
    levels = one.split("/"), other.split("/")
    if first is None or second is None or min(map(len, levels)) <= place:
        return
    template = f"s/{{{place}}}"
    same = stream_name(template, pattern, one, first) == stream_name(
        template, pattern, other, second
    )
    assert same == (levels[0][place] == levels[1][place])


@given(FILTERS, TOPICS, st.sampled_from(["s", "s/{0}", "{1}", "{2}-{0}", "x{3}"]))
def test_a_name_is_recognised_as_one_of_its_table(pattern, topic, template):
    matched = match_levels(pattern, topic)
    if matched is not None:
        name = stream_name(template, pattern, topic, matched)
        assert name
        assert may_name(template, pattern, name)
