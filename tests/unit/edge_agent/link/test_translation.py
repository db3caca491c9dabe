import inspect

import nats.aio.errors
import nats.errors
import nats.js.errors
import pytest

from edge_agent.errors import LinkDown, LinkError, LinkTimeout, NoResponders, Refused
from edge_agent.link.translation import KINDS, check_stored, kind_of, translated


def _all_errors():
    for module in (nats.errors, nats.js.errors):
        for _, found in inspect.getmembers(module, inspect.isclass):
            if issubclass(found, BaseException) and found.__module__ == module.__name__:
                yield found


@pytest.mark.parametrize(
    "error", list(_all_errors()), ids=lambda error: f"{error.__module__}.{error.__name__}"
)
def test_every_error_of_the_client_has_a_kind(error):
    assert error in KINDS, f"nats has a new error {error.__name__}: decide what it means"


@pytest.mark.parametrize(
    "alias",
    [found for _, found in inspect.getmembers(nats.aio.errors, inspect.isclass)],
    ids=lambda alias: alias.__name__,
)
def test_old_names_of_errors_are_kinds_of_the_new_ones(alias):
    assert issubclass(alias, tuple(KINDS))


@pytest.mark.parametrize(
    ("raised", "kind"),
    [
        (nats.errors.ConnectionClosedError(), LinkDown),
        (nats.errors.FlushTimeoutError(), LinkTimeout),
        (nats.errors.NoRespondersError(), NoResponders),
        (nats.errors.MaxPayloadError(), Refused),
        (TimeoutError(), LinkTimeout),
        (ConnectionResetError(), LinkDown),
    ],
    ids=lambda value: getattr(value, "__name__", type(value).__name__),
)
def test_errors_are_sorted_by_what_to_do(raised, kind):
    assert kind_of(raised) is kind
    with pytest.raises(kind), translated("doing it"):
        raise raised


def test_a_stored_message_is_no_error():
    check_stored(b'{"stream":"EDGE_TEL","seq":3}', subject="s")
    check_stored(b'{"stream":"EDGE_TEL","seq":3,"duplicate":true}', subject="s")


@pytest.mark.parametrize(
    ("body", "kind"),
    [
        (
            b'{"error":{"code":503,"err_code":10077,"description":"maximum bytes exceeded"}}',
            LinkError,
        ),
        (
            b'{"error":{"code":400,"err_code":10054,"description":"message size exceeds maximum"}}',
            Refused,
        ),
        (b"", LinkError),
        (b"[]", LinkError),
        (b"{}", LinkError),
    ],
)
def test_a_refusal_of_a_stream_is_only_final_for_a_message_that_is_too_large(body, kind):
    with pytest.raises(LinkError) as raised:
        check_stored(body, subject="s")
    assert type(raised.value) is kind
