import pytest

from contract import subjects
from contract.status import Lane, Priority, RowClass

NKEY = "U" + "A2" * 27 + "B"


@pytest.mark.parametrize("text", ["a", "pump-7", "0", "a_b", "a" * 63])
def test_a_name_is_small_letters_digits_and_dashes(text):
    assert subjects.is_name(text)


@pytest.mark.parametrize(
    "text", ["", "-a", "_a", "A", "a.b", "a b", "a*", ">", "a\n", "ä", "a" * 64, "a/b"]
)
def test_what_could_split_or_widen_a_subject_is_no_name(text):
    assert not subjects.is_name(text)
    assert not subjects.is_device(text)


def test_a_device_is_a_public_key_or_a_name():
    assert subjects.is_device(NKEY)
    assert not subjects.is_device(NKEY[:-1])
    assert not subjects.is_device("S" + NKEY[1:])


@pytest.mark.parametrize("lane", Lane)
def test_every_lane_has_a_stream_whose_filter_captures_its_subject(lane):
    subject = subjects.lane_subject("d1", lane, "waterflow-anomaly")
    pattern = subjects.lane_filter(lane).split(".")
    tokens = subject.split(".")
    assert len(tokens) == len(pattern)
    assert all(want in ("*", got) for want, got in zip(pattern, tokens, strict=True))
    assert subjects.STREAM_OF[lane].startswith("EDGE_")


def test_the_subjects_are_those_of_the_design():
    assert subjects.lane_subject("d1", Lane.TEL) == "edge.v1.d1.tel"
    assert subjects.lane_subject("d1", Lane.EVT) == "edge.v1.d1.evt"
    assert subjects.lane_subject("d1", Lane.BULK, "m") == "edge.v1.d1.bulk.m"
    assert subjects.infer_subject("d1", Priority.RT, "m") == "edge.v1.d1.inf.rt.m"
    assert subjects.cancel_subject("d1", "r1") == "edge.v1.d1.can.r1"
    assert subjects.state_subject("d1") == "edge.v1.d1.state"
    assert subjects.nudge_subject("d1") == "edge.v1.d1.nudge"
    assert subjects.message_id("d1", "e1", Lane.TEL, 5, 9) == "d1:e1:tel:5-9"


def test_a_subject_says_which_device_speaks():
    found = subjects.parse("edge.v1.d1.inf.rt.waterflow")
    assert found == subjects.Address("d1", "inf", ("rt", "waterflow"))
    assert subjects.parse(subjects.state_subject(NKEY)) == subjects.Address(NKEY, "state", ())


@pytest.mark.parametrize(
    "subject",
    [
        "",
        "edge.v1",
        "edge.v1.d1",
        "edge.v2.d1.tel",
        "edge.v1.*.tel",
        "edge.v1..tel",
        "edge.v1.D1.tel",
        "other.v1.d1.tel",
        "edge.v1.>",
        "$JS.API.INFO.x",
    ],
)
def test_a_subject_that_is_none_of_ours_is_none(subject):
    assert subjects.parse(subject) is None


def test_only_the_devices_own_inbox_is_answered():
    assert subjects.is_reply_of("d1", subjects.inbox_prefix("d1") + ".abc")
    for reply in (
        "",
        "_INBOX_d1",
        "_INBOX_d10.abc",
        "_INBOX_d2.abc",
        "edge.v1.d1.tel",
        "x_INBOX_d1.a",
    ):
        assert not subjects.is_reply_of("d1", reply)


@pytest.mark.parametrize(
    ("text", "valid"),
    [("abc-1_X", True), ("", False), ("a.b", False), ("a" * 65, False), ("*", False)],
)
def test_a_request_id_is_one_token(text, valid):
    assert subjects.is_request_id(text) is valid


def test_every_row_class_has_its_lane():
    assert {kind: kind.lane for kind in RowClass} == {
        RowClass.ALARM: Lane.EVT,
        RowClass.VERDICT: Lane.EVT,
        RowClass.REVISION: Lane.EVT,
        RowClass.GAP: Lane.EVT,
        RowClass.ESCALATION: Lane.BULK,
        RowClass.ROLLUP: Lane.TEL,
        RowClass.RAW: Lane.TEL,
    }
