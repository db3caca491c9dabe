"""A device without a descriptor left says so, and tries again soon."""

import asyncio
import errno

import pytest

from edge_agent.errors import LinkDown, NothingToSpare
from edge_agent.link.client import NatsClient
from edge_agent.settings import HubSettings


def _connect():
    return NatsClient.connect(
        HubSettings(url="nats://127.0.0.1:4222"),
        device="d",
        on_reply=lambda *_: None,
        on_forbidden=lambda _: None,
        subscriptions={},
    )


@pytest.mark.parametrize(
    ("number", "kind"),
    [
        (errno.EMFILE, NothingToSpare),
        (errno.ENFILE, NothingToSpare),
        (errno.ECONNREFUSED, LinkDown),
    ],
)
async def test_what_this_machine_lacks_is_told_from_a_server_that_is_away(
    monkeypatch, number, kind
):
    async def refused(*_: object, **__: object) -> None:
        raise OSError(number, "no")

    with monkeypatch.context() as trouble:
        trouble.setattr(asyncio, "open_connection", refused)
        with pytest.raises(LinkDown) as caught:
            await _connect()
    assert type(caught.value) is kind
