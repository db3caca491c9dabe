"""Messages that go twice are counted by the rows in them, whatever messages they come in."""

from typing import Any

from nats.aio.msg import Msg

from bench.faults.tap import Tap
from contract.subjects import MSG_ID


def message(identity: str | None) -> Msg:
    headers = {} if identity is None else {MSG_ID: identity}
    nobody: Any = None
    return Msg(_client=nobody, subject="edge.v1.d.tel", data=b"", headers=headers)


async def heard(*identities: str | None) -> Tap:
    tap = Tap()
    for identity in identities:
        await tap.note(message(identity))
    return tap


async def test_new_rows_are_not_again():
    tap = await heard("d:e:tel:1-4", "d:e:tel:5-5", None)
    assert (tap.messages, tap.rows, tap.again) == (2, 5, 0)


async def test_rows_in_another_message_are_again():
    tap = await heard("d:e:tel:1-4", "d:e:tel:3-9", "d:e:tel:3-9:beef")
    assert (tap.again, tap.rows_again) == (2, 2 + 7)


async def test_lanes_epochs_and_devices_are_apart():
    tap = await heard("d:e:tel:1-4", "d:f:tel:1-4", "d:e:evt:1-4", "c:e:tel:1-4")
    assert tap.again == 0
