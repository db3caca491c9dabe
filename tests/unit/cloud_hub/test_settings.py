"""A wrong configuration names the key, where it is, and the valid values; all mistakes at once."""

from pathlib import Path

import pytest

from cloud_hub.errors import ConfigurationError
from cloud_hub.settings import load_settings


def _load(folder: Path, text: str):
    path = folder / "hub.toml"
    path.write_text(text, encoding="utf-8")
    return load_settings(path)


def test_defaults_serve_a_local_server(monkeypatch, tmp_path: Path):
    monkeypatch.setattr("cloud_hub.settings.DEFAULT_CONFIG", tmp_path / "absent.toml")
    settings = load_settings()
    assert settings.nats.urls == ["nats://127.0.0.1:4222"]
    assert settings.store.resolved_url == "sqlite+aiosqlite:////var/lib/skerry-hub/hub.db"
    assert (settings.http.host, settings.http.port) == ("127.0.0.1", 9465)
    assert not settings.nats.allow_unsafe_sync


def test_paths_are_relative_to_the_file(tmp_path: Path):
    settings = _load(tmp_path, '[models]\npackages = ["m/a"]\n[store]\ndata_dir = "data"\n')
    assert settings.models.packages == [tmp_path / "m" / "a"]
    assert settings.store.data_dir == tmp_path / "data"


def test_the_environment_overrules_the_file(monkeypatch, tmp_path: Path):
    monkeypatch.setenv("CLOUD_HUB_HTTP__PORT", "1234")
    assert _load(tmp_path, "[http]\nport = 99\n").http.port == 1234


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        (
            "[nats]\nurll = 1\n",
            ["hub.toml, line 2: [nats], urll", "did you mean 'url'?", "monitor_url"],
        ),
        ("[natz]\n", ["hub.toml, line 1: natz", "did you mean 'nats'?"]),
        ('[nats]\nurl = "127.0.0.1"\n', ["[nats], url", "'127.0.0.1' is not valid", "must match"]),
        ("[inference]\nmax_batch = 0\n", ["[inference], max_batch", "0 is not valid", "greater"]),
        ('[inference]\nprovider = "gpu"\n', ["provider", "valid: 'auto', 'cpu', 'cuda'"]),
        ('[http]\nport = "many"\n', ["[http], port", "'many' is not valid", "integer"]),
        ('[store]\nurl = "mysql://x"\n', ["[store], url", "sqlite"]),
        ('[log]\nlevel = "loud"\n', ["[log], level", "'debug', 'info', 'warning' or 'error'"]),
        ("[nats\n", ["is not valid TOML"]),
    ],
)
def test_each_mistake_is_a_sentence(tmp_path: Path, text: str, parts: list[str]):
    with pytest.raises(ConfigurationError) as caught:
        _load(tmp_path, text)
    assert all(part in str(caught.value) for part in parts), str(caught.value)
    assert caught.value.exit_code == 2


def test_all_mistakes_are_told_at_once(tmp_path: Path):
    with pytest.raises(ConfigurationError) as caught:
        _load(tmp_path, "[http]\nport = -1\n[nats]\nurll = 1\n")
    assert len(str(caught.value).splitlines()) == 2


@pytest.mark.parametrize(
    ("variable", "value", "part"),
    [
        ("CLOUD_HUB_NATS__URLL", "x", "there is no key 'urll'; valid: allow_unsafe_sync"),
        ("CLOUD_HUB_PORT", "1", "there is no key 'port'"),
        (
            "CLOUD_HUB_HTTP__PORT",
            "many",
            "environment variable CLOUD_HUB_HTTP__PORT: [http], port: 'many'",
        ),
    ],
)
def test_a_wrong_variable_is_told(monkeypatch, tmp_path: Path, variable, value, part):
    monkeypatch.setenv(variable, value)
    with pytest.raises(ConfigurationError) as caught:
        _load(tmp_path, "")
    assert part in str(caught.value)


def test_a_missing_file_is_told(tmp_path: Path):
    with pytest.raises(ConfigurationError, match="cannot read the configuration"):
        load_settings(tmp_path / "none.toml")


def test_no_monitor_and_no_consent_is_a_mistake(monkeypatch, tmp_path: Path):
    monkeypatch.setenv("CLOUD_HUB_NATS", '{"monitor_url": null}')
    with pytest.raises(ConfigurationError, match="allow_unsafe_sync = true"):
        _load(tmp_path, "")


def test_secrets_mask_themselves(tmp_path: Path):
    settings = _load(tmp_path, '[nats]\nuser = "hub"\npassword = "hunter2"\n')
    assert "hunter2" not in repr(settings)


def test_a_password_in_a_url_is_not_shown(tmp_path: Path):
    settings = _load(tmp_path, '[nats]\nurl = "nats://hub:hunter2@10.0.0.1:4222"\n')
    assert settings.nats.shown_urls == "nats://10.0.0.1:4222"
