import json
from typing import Any

import pytest

from edge_agent.cli import main
from tests.fakes.batches import START_S
from tests.fakes.packages import write_package


def lines(count: int, *, topic: str = "site/a", at_s: float = START_S) -> list[str]:
    return [
        json.dumps(
            {"t": at_s + n, "topic": topic, "payload": {"flow": 9.0 if n == 40 else 0.1 * (n % 3)}}
        )
        for n in range(count)
    ]


@pytest.fixture
def files(tmp_path):
    write_package(tmp_path / "tiny")
    config = tmp_path / "agent.toml"
    config.write_text(
        '[device]\nname = "d1"\n[[model]]\npackage = "tiny"\n'
        '[[stream]]\nname = "pump"\ntopic = "site/+"\ntime = "recorded"\nmodel = "tiny"\n'
        "[stream.channels.flow]\nmax = 100\n"
    )
    recording = tmp_path / "day.ndjson"
    recording.write_text("\n".join(lines(60)) + "\n")
    return config, recording


@pytest.fixture
def replay(files, capfd):
    def run(*more: str, inputs=None) -> tuple[int, list[dict[str, Any]], str]:
        config, recording = files
        paths = [str(path) for path in (inputs or [recording])]
        code = main(["replay", "--config", str(config), "--input", *paths, *more])
        shown = capfd.readouterr()
        return code, [json.loads(line) for line in shown.out.splitlines()], shown.err

    return run


def test_each_window_is_printed_as_a_line_and_a_summary_follows(replay):
    code, verdicts, err = replay()
    assert code == 0
    assert len(verdicts) == 58
    first = verdicts[0]
    assert (first["stream"], first["tier"], first["model"], first["release"]) == (
        "pump/a",
        "model",
        "tiny",
        7,
    )
    assert first["time"] == "2026-11-30T00:53:22.000Z"
    assert first["stages_ms"] == {}
    assert [v["label"] for v in verdicts].count("anomaly") == 3
    assert "messages: 60" in err
    assert "verdicts: 58" in err
    assert "alarms: 1" in err


def test_with_json_the_summary_is_the_last_line(replay):
    _, printed, _ = replay("--json")
    assert printed[-1]["summary"] == {
        "messages": 60,
        "readings": 60,
        "verdicts": 58,
        "alarms": 1,
        "by_tier": {"model": 58},
        "by_label": {"normal": 55, "anomaly": 3},
        "faults": {},
        "from": "2026-11-30T00:53:20.000Z",
        "to": "2026-11-30T00:54:19.000Z",
    }


def test_two_replays_are_the_same_to_the_byte(files, capfdbinary):
    config, recording = files
    arguments = ["replay", "--config", str(config), "--input", str(recording), "--json"]
    assert main(arguments) == 0
    first = capfdbinary.readouterr()
    assert main(arguments) == 0
    assert capfdbinary.readouterr() == first
    assert len(first.out) > 1000


def test_several_recordings_are_merged_by_time(replay, files, tmp_path):
    other = tmp_path / "other.ndjson"
    other.write_text("\n".join(lines(60, topic="site/b", at_s=START_S + 0.5)))
    _, printed, _ = replay(inputs=[files[1], other])
    assert {v["stream"] for v in printed} == {"pump/a", "pump/b"}
    assert len(printed) == 2 * 58


def test_bad_messages_in_a_recording_are_counted_like_live_ones(replay, files):
    bad = [
        {"t": START_S, "topic": "site/a", "payload": "not json"},
        {"t": START_S, "topic": "elsewhere", "payload": {"flow": 1}},
        {"t": START_S, "topic": "site/a", "payload": {"flow": 101}},
        {"t": START_S, "topic": "site/a", "payload_b64": "/w=="},
    ]
    files[1].write_text("\n".join(map(json.dumps, bad)))
    code, printed, _ = replay("--json")
    assert code == 0
    assert printed[-1]["summary"]["faults"] == {
        "bad_json": 1,
        "no_stream": 1,
        "out_of_range": 1,
        "bad_text": 1,
    }


@pytest.mark.parametrize("broken", ["{", '{"t": 1}', '{"t": "x", "topic": "a", "payload": 1}'])
def test_a_broken_line_names_its_file_and_number_and_ends_with_1(replay, files, broken):
    text = lines(3)
    files[1].write_text("\n".join([*text, broken, *text]))
    code, _, err = replay()
    assert code == 1
    assert f"{files[1]}:4: " in err
    assert "Traceback" not in err


def test_a_recording_that_is_not_there_ends_with_1(replay, tmp_path):
    code, _, err = replay(inputs=[tmp_path / "nowhere.ndjson"])
    assert code == 1
    assert "nowhere.ndjson" in err


def test_an_empty_recording_has_an_empty_summary(replay, files):
    files[1].write_text("\n")
    code, printed, _ = replay("--json")
    assert code == 0
    assert printed == [{"summary": printed[0]["summary"]}]
    assert printed[0]["summary"]["from"] is None


def test_a_model_that_cannot_be_loaded_costs_a_tier_and_is_told(replay, files):
    (files[0].parent / "tiny" / "device.onnx").write_bytes(b"broken")
    code, printed, err = replay()
    assert code == 0
    assert "a lower tier answers" in err
    assert {v["tier"] for v in printed} <= {"baseline", "last_known"}
