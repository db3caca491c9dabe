import pytest

from contract.subjects import RETRY_AFTER_MS
from edge_agent.link.connection import _number


@pytest.mark.parametrize(
    ("text", "value"),
    [("12.5", 12.5), ("nan", 0.0), ("inf", 0.0), ("-1", 0.0), ("x", 0.0), ("1e300", 60_000.0)],
)
def test_a_number_in_a_header_is_finite_and_bounded(text: str, value: float):
    assert _number({RETRY_AFTER_MS: text}, RETRY_AFTER_MS) == value
