"""A device without a thread to spare goes on."""

import asyncio
import errno
import socket
import threading

import pytest

from edge_agent.agent.threads import reserve_threads
from edge_agent.broker.dial import NothingToSpare, dial
from edge_agent.broker.options import BrokerOptions


def _no_thread(self: threading.Thread) -> None:
    raise RuntimeError("can't start new thread")


async def test_reserved_threads_work_when_no_new_one_can_be_started(monkeypatch):
    await reserve_threads(2)
    with monkeypatch.context() as trouble:  # the end of the loop needs a thread again
        trouble.setattr(threading.Thread, "start", _no_thread)
        found = await asyncio.gather(*(asyncio.to_thread(abs, -n) for n in range(8)))
    assert found == list(range(8))


async def test_a_broker_that_no_thread_can_be_started_for_is_away(monkeypatch):
    options = BrokerOptions(host="127.0.0.1", port=1883, client_id="c")
    with monkeypatch.context() as trouble:
        trouble.setattr(threading.Thread, "start", _no_thread)
        with pytest.raises(NothingToSpare, match="can't start new thread"):
            await dial(options)


async def test_a_broker_that_no_descriptor_is_left_for_is_away_for_a_moment(monkeypatch):
    def no_descriptor(*_: object, **__: object) -> socket.socket:
        raise OSError(errno.EMFILE, "Too many open files")

    options = BrokerOptions(host="127.0.0.1", port=1883, client_id="c")
    with monkeypatch.context() as trouble:
        trouble.setattr(socket, "create_connection", no_descriptor)
        with pytest.raises(NothingToSpare, match="Too many open files"):
            await dial(options)
