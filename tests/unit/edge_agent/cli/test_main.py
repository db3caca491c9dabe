import sys

import pytest

from edge_agent.cli import COMMANDS, main
from edge_agent.version import VERSION


def test_without_a_command_the_usage_is_shown(capsys):
    with pytest.raises(SystemExit) as caught:
        main([])
    assert caught.value.code == 2
    assert "usage: edge-agent" in capsys.readouterr().err


def test_an_unknown_command_lists_the_known_ones(capsys):
    with pytest.raises(SystemExit) as caught:
        main(["replya"])
    assert caught.value.code == 2
    shown = capsys.readouterr().err
    assert all(command in shown for command in COMMANDS)


def test_the_help_names_every_command_without_loading_one(capsys):
    before = {name for name in sys.modules if name.startswith("edge_agent.cli.")}
    with pytest.raises(SystemExit) as caught:
        main(["--help"])
    assert caught.value.code == 0
    shown = capsys.readouterr().out
    assert all(command in shown for command in COMMANDS)
    assert {name for name in sys.modules if name.startswith("edge_agent.cli.")} == before


def test_an_option_before_the_command_is_refused(capsys):
    with pytest.raises(SystemExit) as caught:
        main(["--config", "x", "decode"])
    assert caught.value.code == 2


@pytest.mark.parametrize("command", ["decode", "replay"])
def test_a_wrong_configuration_ends_with_2_and_names_key_place_and_values(
    tmp_path, capsys, command
):
    config = tmp_path / "agent.toml"
    config.write_text('[device]\nname = "d1"\n[[stream]]\nname = "s"\ntopic = "a"\ntime = "no"\n')
    more = ["--topic", "a"] if command == "decode" else ["--input", str(tmp_path / "x")]
    assert main([command, "--config", str(config), *more]) == 2
    shown = capsys.readouterr().err
    assert f"{config}, line 6: [[stream]] number 1, time: 'no' is not valid" in shown
    assert "'checked', 'recorded' or 'arrival'" in shown
    assert "Traceback" not in shown


def test_a_configuration_that_is_not_there_ends_with_2(tmp_path, capsys):
    config = str(tmp_path / "nowhere.toml")
    assert main(["replay", "--config", config, "--input", "x"]) == 2
    assert "nowhere.toml" in capsys.readouterr().err


def test_the_version_is_told(capsys):
    with pytest.raises(SystemExit) as caught:
        main(["--version"])
    assert caught.value.code == 0
    assert capsys.readouterr().out == f"edge-agent {VERSION}\n"
