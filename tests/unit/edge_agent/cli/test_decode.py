import io
import json

import pytest

from edge_agent.cli import main


@pytest.fixture
def decode(monkeypatch, capsys):
    def run(payload: bytes, *arguments: str) -> tuple[int, str, str]:
        monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(payload)))
        code = main(["decode", *arguments])
        shown = capsys.readouterr()
        return code, shown.out, shown.err

    return run


@pytest.fixture
def config(tmp_path):
    path = tmp_path / "agent.toml"
    path.write_text(
        '[device]\nname = "d1"\n[[stream]]\nname = "pump"\ntopic = "site/+"\n'
        "[stream.channels]\n"
        'flow = {unit = "l/s", min = 0}\ntemp = {path = "t.c"}\n'
    )
    return "--config", str(path)


def test_a_payload_is_shown_as_the_reading_it_becomes(decode, config):
    payload = b'{"flow": 1.5, "t": {"c": 20}, "ts": "2026-11-30T08:15:02Z"}'
    code, out, err = decode(payload, *config, "--topic", "site/a")
    assert (code, err) == (0, "")
    assert out.splitlines() == [
        "pump/a  2026-11-30T08:15:02.000Z",
        "  flow = 1.5 l/s",
        "  temp = 20",
    ]


def test_a_machine_reads_the_same_as_json(decode, config):
    payload = b'{"flow": -1, "t": {"c": 20}, "ts": 5}'
    code, out, _ = decode(payload, *config, "--topic", "site/a", "--json")
    found = json.loads(out)
    assert code == 0
    assert found["topic"] == "site/a"
    (reading,) = found["readings"]
    assert reading["values"] == {"flow": None, "temp": 20.0}
    assert reading["units"] == {"flow": "l/s"}
    assert reading["flags"] == ["time_untrusted", "channel_rejected"]
    assert {fault["fault"] for fault in found["faults"]} == {"time_untrusted", "out_of_range"}


@pytest.mark.parametrize(
    ("topic", "payload", "fault"),
    [
        ("site/a", b"{", "bad_json"),
        ("site/a", b"", "bad_json"),
        ("site/a", b"\xff", "bad_text"),
        ("site/a", b"{}", "no_values"),
        ("site/a", b"[" * 5000, "too_deep"),
        ("site/a", b" " * 70_000, "too_large"),
        ("elsewhere", b'{"flow": 1}', "no_stream"),
    ],
    ids=lambda value: repr(value)[:20],
)
def test_a_payload_that_becomes_nothing_says_why_and_ends_with_1(
    decode, config, topic, payload, fault
):
    code, out, err = decode(payload, *config, "--topic", topic)
    assert (code, out) == (1, "")
    assert err.startswith(f"{fault}: ")
    assert "no reading came of this payload" in err


def test_without_a_configuration_the_channels_are_named_on_the_command_line(decode):
    arguments = [
        "--profile",
        "json",
        "--topic",
        "a/b",
        "--channel",
        "flow",
        "--channel",
        "t=x[0].c",
    ]
    code, out, _ = decode(b'{"flow": 1, "x": [{"c": 2}]}', *arguments, "--json")
    assert code == 0
    assert json.loads(out)["readings"][0]["values"] == {"flow": 1.0, "t": 2.0}


@pytest.mark.parametrize(
    ("arguments", "part"),
    [
        (["--topic", "a"], "--channel NAME"),
        (["--topic", "a/#/b", "--channel", "x"], "--topic: "),
        (["--topic", "a", "--channel", "x=a..b"], "'a..b' is not a path"),
        (["--topic", "a", "--channel", "=y"], "--channel: "),
        (["--topic", "", "--channel", "x"], "topic"),
    ],
)
def test_a_wrong_argument_ends_with_2_and_says_what_is_wrong(decode, arguments, part):
    code, _, err = decode(b"{}", *arguments)
    assert code == 2
    assert part in err
    assert "Traceback" not in err
