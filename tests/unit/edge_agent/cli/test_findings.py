"""What is valid and cannot be meant: `check` says it, with the mend."""

from pathlib import Path

import pytest

from edge_agent.cli.findings import data_folder, streams
from tests.fakes.settings import settings_of, stream


@pytest.mark.parametrize(
    ("name", "topic", "wrong"),
    [
        ("{0}/{1}", "site/+", []),
        ("{2}", "site/#", []),
        ("{2}", "site/+", ["{2}"]),
        ("{0}.{3}.{9}", "site/+/x", ["{3}", "{9}"]),
        ("plain", "site/+", []),
    ],
)
def test_a_place_beyond_the_topic_is_named(name: str, topic: str, wrong: list[str]):
    found = list(streams(settings_of(stream(name, topic))))
    assert [each.what.split(maxsplit=1)[0] for each in found] == wrong
    assert all(each.state == "failed" and each.mend for each in found)


@pytest.mark.parametrize(
    ("channel", "key"),
    [
        ({"max": 10, "alarm_above": 11}, "alarm_above"),
        ({"max": 10, "alarm_above": 10}, "alarm_above"),
        ({"max": 10, "alarm_above": 9}, ""),
        ({"min": -10, "alarm_below": -11}, "alarm_below"),
        ({"min": -10, "alarm_below": -10}, "alarm_below"),
        ({"min": -10, "alarm_below": -9}, ""),
        ({"alarm_above": 5, "alarm_below": 9}, ""),
    ],
)
def test_an_alarm_limit_that_is_never_reached_is_named(channel: dict[str, float], key: str):
    found = list(streams(settings_of(stream(channels={"flow": channel}))))
    assert [each.what.split()[0] for each in found] == ([key] if key else [])
    assert all(each.state == "warning" and each.mend for each in found)


def test_a_data_folder_that_is_a_file_is_named(tmp_path: Path):
    (tmp_path / "file").write_text("")
    for place in (tmp_path / "file", tmp_path / "file" / "data"):
        settings = settings_of()
        device = settings.device.model_copy(update={"data_dir": place})
        (found,) = data_folder(settings.model_copy(update={"device": device}))
        assert found.state == "failed"
        assert f"{tmp_path / 'file'} is a file" in found.what
