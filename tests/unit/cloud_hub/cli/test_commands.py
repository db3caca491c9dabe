"""What people and programs get from the command line; errors are sentences, never tracebacks."""

import csv
import io
import json
import sys
from pathlib import Path

import pytest

from cloud_hub.cli import main
from cloud_hub.ingest.decode import decode_deliveries
from cloud_hub.store.apply import apply_batch
from cloud_hub.store.database import writing
from contract.encoding import encode
from contract.messages import Gap, RawRow, Row
from contract.status import Lane, RowClass
from tests.unit.cloud_hub.sample_rows import (
    CLOCK,
    delivery,
    gap_row,
    raw_group,
    raw_row,
    verdict_row,
)


@pytest.fixture
def config(tmp_path: Path) -> Path:
    path = tmp_path / "hub.toml"
    path.write_text('[store]\ndata_dir = "data"\n', encoding="utf-8")
    return path


@pytest.fixture
async def stored(config: Path) -> Path:
    """A database with one device: two raw rows, a formula of a stream, a verdict and a gap."""
    formula = Row(3, RowClass.RAW, encode(RawRow(CLOCK, (raw_group([5.0], stream="=1+1"),))))
    lanes = {
        Lane.TEL: [raw_row(1), raw_row(2), formula],
        Lane.EVT: [verdict_row(1), gap_row(2, Gap(Lane.TEL, 4, 5, 1, 8, "quota"))],
    }
    async with writing(f"sqlite+aiosqlite:///{config.parent / 'data' / 'hub.db'}") as database:
        for lane, rows in lanes.items():
            batch = decode_deliveries([delivery(rows, lane)], lane, received_s=1000.0)
            await database.write(lambda c, b=batch: apply_batch(c, b, max_dead_letters=1))  # type: ignore[misc]
    return config


@pytest.fixture
async def bad(stored: Path) -> Path:
    """The same database with one dead letter."""
    async with writing(f"sqlite+aiosqlite:///{stored.parent / 'data' / 'hub.db'}") as database:
        batch = decode_deliveries(
            [delivery([verdict_row(7)], Lane.TEL)], Lane.TEL, received_s=1000.0
        )
        await database.write(lambda c: apply_batch(c, batch, max_dead_letters=9))
    return stored


@pytest.fixture
def run(monkeypatch, capsys):
    """Runs `cloud-hub` with arguments; returns its exit code, stdout and stderr."""

    def call(*arguments: object) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["cloud-hub", *map(str, arguments)])
        with pytest.raises(SystemExit) as ended:
            main()
        said = capsys.readouterr()
        return int(ended.value.code or 0), said.out, said.err

    return call


def test_the_help_names_every_command(run):
    code, out, _ = run("--help")
    assert code == 0
    assert all(word in out for word in ("serve", "device", "telemetry", "infer", "deadletters"))


def test_devices_are_listed_for_people_and_programs(run, stored: Path):
    code, out, _ = run("device", "list", "--config", stored)
    assert code == 0
    assert "d1" in out
    code, out, _ = run("device", "list", "--config", stored, "--json")
    (found,) = json.loads(out)
    assert (found["device"], found["readings"], found["last_seen"]) == (
        "d1", 9, "1970-01-01T00:16:40.000Z",
    )  # fmt: skip


def test_a_device_is_shown_with_lanes_streams_and_gaps(run, stored: Path):
    code, out, _ = run("device", "show", "d1", "--config", stored, "--json")
    found = json.loads(out)
    assert code == 0
    assert {each["lane"]: each["applied"] for each in found["lanes"]} == {"evt": 2, "tel": 5}
    assert found["gaps"] == {"records": 1, "readings": 8, "held": 0, "exact": True}
    assert found["times"]["in_doubt"] == 0
    code, out, _ = run("device", "show", "d1", "--config", stored)
    assert code == 0
    assert "pump" in out
    assert "gaps: 8 readings in 1 records" in out


def test_figures_come_from_unique_rows_with_what_is_missing(run, stored: Path):
    arguments = ("telemetry", "stats", "--device", "d1", "--stream", "pump", "--config", stored)
    code, out, _ = run(*arguments, "--json")
    found = json.loads(out)
    assert code == 0
    (stream,) = found["streams"]
    assert (stream["readings"], stream["first_s"], stream["last_s"]) == (8, 10.0, 23.0)
    assert [(each["channel"], each["count"], each["mean"]) for each in stream["channels"]] == [
        ("a", 8, 3.0), ("b", 8, 4.0),
    ]  # fmt: skip
    assert (found["stored"], found["lost"], found["coverage"]) == (9, 8, 9 / 17)
    code, out, _ = run(*arguments)
    assert "8 readings given up" in out
    assert "52.94% are here" in out


def test_dead_letters_are_listed(run, bad: Path):
    code, out, _ = run("deadletters", "list", "--config", bad, "--json")
    (found,) = json.loads(out)
    assert code == 0
    assert (found["device"], found["lane"], found["first"]) == ("d1", "tel", 7)
    assert found["begins"]
    code, out, _ = run("deadletters", "list", "--config", bad)
    assert "travel in lane tel" in " ".join(out.split())
    code, out, _ = run("deadletters", "list", "--config", bad, "--device", "d9")
    assert "Nothing was set aside" in out


def test_telemetry_comes_as_json_with_its_gaps(run, stored: Path):
    arguments = ("telemetry", "query", "--device", "d1", "--stream", "pump", "--config", stored)
    code, out, _ = run(*arguments, "--from", "1970-01-01T00:00:12Z", "--to", "24", "--json")
    found = json.loads(out)
    assert code == 0
    assert [each["time_s"] for each in found["readings"]] == [12.0, 13.0, 20.0, 21.0, 22.0, 23.0]
    assert found["readings"][0]["values"] == {"a": 4.0, "b": 5.0}
    assert [(gap["readings"], gap["reason"]) for gap in found["gaps"]] == [(8, "quota")]
    code, out, _ = run(*arguments)
    assert "8 readings given up" in out


def test_csv_disarms_formulas(run, stored: Path):
    code, out, _ = run("telemetry", "query", "--device", "d1", "--config", stored, "--csv")
    lines = list(csv.DictReader(io.StringIO(out)))
    assert code == 0
    assert {line["stream"] for line in lines} == {"pump", "'=1+1"}
    assert {line["channel"] for line in lines} == {"a", "b"}


@pytest.mark.parametrize(
    ("arguments", "code", "part"),
    [
        (["device", "show", "d9"], 1, "no device 'd9' has been heard of"),
        (["telemetry", "query", "--device", "d9"], 1, "no device 'd9'"),
        (["telemetry", "stats", "--device", "d9"], 1, "no device 'd9'"),
        (["telemetry", "query", "--device", "d1", "--from", "soon"], 2, "is not a time"),
        (["telemetry", "query", "--device", "d1", "--json", "--csv"], 2, "exclude each other"),
    ],
)
def test_a_wrong_question_is_answered_with_a_sentence(run, stored: Path, arguments, code, part):
    found, out, err = run(*arguments, "--config", stored)
    assert (found, out) == (code, "")
    assert part in " ".join(err.replace("│", " ").split())
    assert "Traceback" not in err


def test_a_missing_database_is_told(run, config: Path):
    code, _, err = run("device", "list", "--config", config)
    assert code == 1
    assert "there is no database at" in err


def test_a_wrong_configuration_ends_with_two(run, config: Path):
    config.write_text("[htpp]\n", encoding="utf-8")
    code, _, err = run("serve", "--config", config)
    assert code == 2
    assert "did you mean 'http'?" in err


def test_a_wrong_role_ends_with_two(run, config: Path):
    code, _, err = run("serve", "--config", config, "--roles", "chef")
    assert code == 2
    assert "inference, ingest, fleet" in err


@pytest.mark.parametrize(
    ("content", "part"),
    [
        ("not json", "is not such an input"),
        ('{"features": [[1.0]]}', "nobody says how the features"),
        ('{"feature_digest": "x"}', "the input needs"),
        ('{"feature_digest": "x", "features": [[1.0], [1.0, 2.0]]}', "inhomogeneous"),
    ],
)
def test_a_wrong_input_for_infer_is_told(run, config: Path, content, part):
    source = config.parent / "input.json"
    source.write_text(content, encoding="utf-8")
    code, _, err = run("infer", "tiny-class", "--input", source, "--config", config)
    assert code == 1
    assert part in " ".join(err.split())
