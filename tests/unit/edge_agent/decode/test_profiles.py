import pytest

from edge_agent.decode.profiles import make_decoder
from edge_agent.decode.rows import Reject, Rows
from edge_agent.errors import ConfigurationError
from edge_agent.settings import LimitSettings, StreamSettings
from tests.fakes.settings import stream


def test_a_channel_without_a_path_is_read_under_its_name():
    decoder = make_decoder(StreamSettings(**stream()), LimitSettings())
    rows = Rows()
    decoder.decode(b'{"flow": 2}', rows)
    assert rows.values == [2.0]


def test_the_limit_of_depth_reaches_the_decoder():
    decoder = make_decoder(StreamSettings(**stream()), LimitSettings(max_depth=2))
    with pytest.raises(Reject, match="2 levels"):
        decoder.decode(b'{"flow": 2, "x": [[1]]}', Rows())


def test_a_wrong_path_is_a_wrong_configuration_that_names_the_stream():
    table = stream(channels={"flow": {"path": "a..b"}})
    with pytest.raises(ConfigurationError, match=r"\[\[stream\]\] 'pump'.*'a\.\.b' is not a path"):
        make_decoder(StreamSettings(**table), LimitSettings())
