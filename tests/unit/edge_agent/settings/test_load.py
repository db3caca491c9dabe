import os
from pathlib import Path

import pytest

from edge_agent.errors import ConfigurationError
from edge_agent.settings import BrokerSettings, Settings, load_settings

BASE = """\
[device]
name = "d1"

[[stream]]
name = "pump"
topic = "site/+"

[stream.channels.flow]
unit = "l/s"
"""


@pytest.fixture(autouse=True)
def clean_environment(monkeypatch):
    for name in list(os.environ):
        if name.upper().startswith("EDGE_AGENT_"):
            monkeypatch.delenv(name)


@pytest.fixture
def load(tmp_path):
    def loaded(text: str) -> Settings:
        path = tmp_path / "agent.toml"
        path.write_text(text, encoding="utf-8")
        return load_settings(path)

    return loaded


@pytest.fixture
def mistake(load, tmp_path):
    def found(text: str) -> str:
        with pytest.raises(ConfigurationError) as caught:
            load(text)
        return str(caught.value).replace(str(tmp_path) + "/", "")

    return found


def test_a_small_file_is_enough(load):
    settings = load(BASE)
    assert settings.device.name == "d1"
    assert settings.prefix == "skerry/d1/"
    assert settings.brokers == (BrokerSettings(),)
    assert settings.hub.urls == ()
    assert settings.stream[0].channels["flow"].unit == "l/s"
    assert settings.stream[0].deadline_ms == 250
    assert settings.http.host == "127.0.0.1"
    assert settings.data_dir == Path("/var/lib/skerry")


def test_a_package_is_relative_to_the_file(load, tmp_path):
    settings = load(BASE + '[[model]]\npackage = "models/x"\n[[model]]\npackage = "/abs/y"\n')
    assert [model.package for model in settings.model] == [tmp_path / "models/x", Path("/abs/y")]


def test_there_may_be_several_brokers_and_hubs(load):
    text = BASE + '[[broker]]\nurl = "mqtt://a:1"\n[[broker]]\nurl = "mqtts://b"\n'
    settings = load(text + '[hub]\nurl = ["nats://a", "nats://b"]\n[output]\nprefix = "x/y"\n')
    assert [broker.url for broker in settings.brokers] == ["mqtt://a:1", "mqtts://b"]
    assert settings.hub.urls == ("nats://a", "nats://b")
    assert settings.prefix == "x/y/"


def test_nothing_can_be_changed_once_it_is_read(load):
    settings = load(BASE)
    with pytest.raises(ValueError, match="frozen"):
        settings.device.name = "d2"


WRONG = {
    "a misspelt key": (
        BASE + "[http]\nprot = 1\n",
        [
            "agent.toml, line 11: [http], prot: there is no such key; did you mean 'port'?",
            "valid keys: enabled, host, port",
        ],
    ),
    "a misspelt table": (
        BASE + "[htpp]\nport = 1\n",
        ["line 10: htpp: there is no such key; did you mean 'http'?"],
    ),
    "a port too high": (
        BASE + "[http]\nport = 70000\n",
        ["line 11: [http], port: 70000 is not valid; input should be less than or equal to 65535"],
    ),
    "a word that is none of the list": (
        BASE.replace('"site/+"', '"site/+"\ntime = "cheked"'),
        ["line 7: [[stream]] number 1, time: 'cheked' is not valid; valid: 'checked', 'recorded'"],
    ),
    "the second of two streams": (
        BASE + '[[stream]]\nname = "t"\ntopic = "a/#/b"\nchannels.x = {}\n',
        ["line 12: [[stream]] number 2, topic: 'a/#/b' is not valid; '#' must be the whole last"],
    ),
    "a plus within a level": (
        BASE.replace("site/+", "site/a+"),
        ["line 6: [[stream]] number 1, topic", "'+' must be a whole level"],
    ),
    "a shared subscription": (
        BASE.replace("site/+", "$share/g/site"),
        ["line 6", "would split a stream between devices"],
    ),
    "limits the wrong way round": (
        BASE + "min = 5\nmax = 1\n",
        ["[[stream]] number 1, channels, flow: min (5) must be below max (1)"],
    ),
    "a limit that is no number": (
        BASE + "min = nan\n",
        ["line 10: [[stream]] number 1, channels, flow, min: nan is not valid"],
    ),
    "no device": (BASE.replace('[device]\nname = "d1"\n', ""), ["device: this key is needed"]),
    "no stream": ('[device]\nname = "d1"\n', ["stream: this key is needed and absent"]),
    "no channel": (
        '[device]\nname="d"\n[[stream]]\nname="s"\ntopic="a"\nchannels={}\n',
        ["line 6: [[stream]] number 1, channels: Dictionary should have at least 1 item"],
    ),
    "a channel without a name": (
        BASE + '[stream.channels.""]\nunit = "x"\n',
        ["[[stream]] number 1, channels"],
    ),
    "a name that no subject could carry": (
        BASE.replace('"d1"', '"D 1"'),
        ["line 2: [device], name: 'D 1' is not valid; it must match ^[a-z0-9]"],
    ),
    "a stream table that is not a list": (
        '[device]\nname="d"\n[stream]\nname="s"\n',
        ["line 3: stream: Input should be a valid list"],
    ),
    "two streams of one name": (
        BASE + BASE.split("\n\n", 1)[1],
        ["two streams are named 'pump'; names must differ"],
    ),
    "one broker of two": (
        BASE + '[[broker]]\nurl = "mqtt://a"\n[[broker]]\nurl = "http://b"\n',
        ["line 13: [[broker]] number 2, url: 'http://b' is not valid; it must match ^mqtts?://"],
    ),
    "no broker at all": (
        "broker = []\n" + BASE,
        ["line 1: broker: List should have at least 1 item"],
    ),
    "not TOML": (BASE + "x = \n", ["is not valid TOML", "line 10"]),
    "an endless number": ("x = " + "9" * 5000 + "\n" + BASE, ["is not valid TOML"]),
    "deep nesting": ("x = " + "[" * 3000, ["is not valid TOML"]),
    "a word of the settings library": (
        '_env_file = "/etc/hostname"\n' + BASE,
        ["_env_file: there is no such key"],
    ),
    "another word of the settings library": (
        '_cli_parse_args = ["--help"]\n' + BASE,
        ["_cli_parse_args: there is no such key"],
    ),
    "a word of Python": ("self = 1\n" + BASE, ["line 1: self: there is no such key"]),
}


@pytest.mark.parametrize("case", WRONG)
def test_a_mistake_is_told_with_key_place_and_what_would_be_valid(mistake, case):
    text, parts = WRONG[case]
    found = mistake(text)
    assert "agent.toml" in found
    for part in parts:
        assert part in found, found


def test_all_mistakes_are_told_at_once_a_line_each(mistake):
    found = mistake(BASE.replace('"d1"', '"D"') + "[http]\nport = -1\nhots = 'x'\n").splitlines()
    assert len(found) == 3
    assert [line.split(": ")[1] for line in found] == [
        "[device], name",
        "[http], port",
        "[http], hots",
    ]


def test_a_broker_that_is_wrong_is_not_also_called_no_list(mistake):
    assert len(mistake(BASE + '[broker]\nurl = "http://x"\n').splitlines()) == 1


def test_a_secret_is_not_repeated_in_the_mistake(mistake):
    for line in ("password = 12345", "password = ['12345']"):
        assert "12345" not in mistake(BASE + f"[broker]\n{line}\n")
    assert "12345" not in mistake(BASE + "[hub]\ntoken = 12345\n")


def test_a_secret_does_not_show(load):
    settings = load(BASE + '[broker]\npassword = "hush"\n')
    assert "hush" not in repr(settings)


def test_a_file_that_is_not_there_is_named_with_what_to_do(tmp_path):
    with pytest.raises(ConfigurationError, match=r"nowhere\.toml.*--config"):
        load_settings(tmp_path / "nowhere.toml")
    with pytest.raises(ConfigurationError, match="cannot read"):
        load_settings(tmp_path)


def test_a_file_that_is_no_text_is_named(tmp_path):
    path = tmp_path / "x.toml"
    path.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(ConfigurationError, match=r"x\.toml"):
        load_settings(path)


def test_the_environment_overrules_the_file(load, monkeypatch):
    monkeypatch.setenv("EDGE_AGENT_HTTP__PORT", "0")
    monkeypatch.setenv("EDGE_AGENT_DEVICE__NAME", "d2")
    monkeypatch.setenv("EDGE_AGENT_BROKER__PASSWORD", "hush")
    settings = load(BASE + "[http]\nport = 1234\n")
    assert settings.http.port == 0
    assert settings.device.name == "d2"
    assert settings.brokers[0].password is not None
    assert settings.brokers[0].password.get_secret_value() == "hush"


def test_a_variable_that_means_nothing_is_listed_with_the_valid_ones(load, mistake, monkeypatch):
    monkeypatch.setenv("EDGE_AGENT_HTP__PORT", "0")
    monkeypatch.setenv("EDGE_AGENT_HTTP__PROT", "0")
    monkeypatch.setenv("OTHER_HTTP__PROT", "0")
    first, second = mistake(BASE).splitlines()
    assert first.startswith(
        "environment variable EDGE_AGENT_HTP__PORT: there is no key 'htp'; valid: "
    )
    assert "EDGE_AGENT_HTTP__PROT: there is no key 'prot'; valid: enabled, host, port" in second


def test_a_wrong_value_in_the_environment_is_told_as_such(mistake, monkeypatch):
    monkeypatch.setenv("EDGE_AGENT_HTTP__PORT", "abc")
    found = mistake(BASE + "[http]\nport = 1234\n")
    assert found.startswith(
        "environment variable EDGE_AGENT_HTTP__PORT: [http], port: 'abc' is not"
    )
    assert "agent.toml" not in found


def test_a_table_in_the_environment_that_cannot_be_read_is_told(mistake, monkeypatch):
    monkeypatch.setenv("EDGE_AGENT_STREAM", "not json")
    assert mistake(BASE).startswith("environment")
