import json

from contract.status import Fault
from edge_agent.observe.metrics import Counters
from edge_agent.observe.quarantine import SAMPLE_BYTES, Quarantine, printable
from edge_agent.types import FaultNote


def note(fault: Fault, number: int = 0, *, sample: bytes = b"x", count: int = 1) -> FaultNote:
    return FaultNote(fault, count, f"topic/{number}", "pump", f"why {number}", sample)


def test_the_latest_samples_are_kept_and_all_are_counted():
    counters = Counters()
    quarantine = Quarantine(counters)
    for number in range(20):
        quarantine.take([note(Fault.BAD_JSON, number)], time_s=float(number))
    quarantine.take([FaultNote(Fault.BAD_JSON, 980, "", "pump", "", b"")], time_s=21.0)
    report = quarantine.sample()
    assert report["faults"] == {"bad_json": 1000}
    assert counters.faults[Fault.BAD_JSON] == 1000
    assert report["streams"] == [{"stream": "pump", "fault": "bad_json", "count": 1000}]
    assert [sample["topic"] for sample in report["samples"]["bad_json"]] == [
        f"topic/{number}" for number in range(15, 20)
    ]


def test_a_sample_is_short_and_prints_safely():
    quarantine = Quarantine(Counters())
    nasty = b'\x1b[2J{"a":\xff\n' + b"x" * 10_000
    quarantine.take([note(Fault.BAD_TEXT, sample=nasty)], time_s=1.0)
    (sample,) = quarantine.sample()["samples"]["bad_text"]
    assert sample["payload"].startswith('\\x1b[2J{"a":\\xff\\n')
    assert len(sample["payload"]) < 2 * SAMPLE_BYTES
    assert sample["payload"].isprintable()
    json.dumps(quarantine.sample())


def test_every_byte_is_printable():
    text = printable(bytes(range(256)))
    assert text.isascii()
    assert text.isprintable()


def test_the_worst_streams_come_first():
    quarantine = Quarantine(Counters())
    for stream, count in (("few", 1), ("many", 9), ("some", 4)):
        quarantine.take([FaultNote(Fault.MISSING, count, "", stream, "d", b"")], time_s=0.0)
    assert [entry["stream"] for entry in quarantine.sample()["streams"]] == ["many", "some", "few"]
