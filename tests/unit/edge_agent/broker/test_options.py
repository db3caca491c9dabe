import pytest
from hypothesis import given
from hypothesis import strategies as st

from edge_agent.broker.backoff import full_jitter_s
from edge_agent.broker.options import broker_options, parse_broker_url
from edge_agent.errors import ConfigurationError
from edge_agent.settings import BrokerSettings


@pytest.mark.parametrize(
    ("url", "parts"),
    [
        ("mqtt://broker", ("broker", 1883, False)),
        ("mqtts://broker:1234/", ("broker", 1234, True)),
        ("mqtt://[::1]:1884", ("::1", 1884, False)),
    ],
)
def test_a_broker_url(url: str, parts: tuple[str, int, bool]):
    assert parse_broker_url(url) == parts


@pytest.mark.parametrize("url", ["http://broker", "mqtt://", "mqtt://b:99999", "broker:1883"])
def test_a_wrong_url_says_how_to_write_it(url: str):
    with pytest.raises(ConfigurationError, match="mqtt://HOST:PORT"):
        parse_broker_url(url)


def test_options_from_settings_hide_the_password():
    settings = BrokerSettings(url="mqtt://b:1", username="u", password="hush")
    options = broker_options(settings, device="press-1")
    assert options.client_id == "skerry-press-1"
    assert options.password == "hush"
    assert "hush" not in repr(options)
    assert options.name == "skerry-press-1@b:1"
    assert options.url == "mqtt://b:1"


@given(st.integers(0, 10_000), st.floats(0, 1, exclude_max=True))
def test_full_jitter_never_exceeds_its_cap(attempt: int, chance: float):
    assert 0 <= full_jitter_s(attempt, chance=chance, cap_s=20) <= 20


def test_full_jitter_grows():
    waits = [full_jitter_s(attempt, chance=1.0) for attempt in range(8)]
    assert waits == [0.5, 1, 2, 4, 8, 16, 20, 20]
