"""The state exchange: the device says how it is, the hub says what it holds and wants.

Every `drain_state_interval_s` while rows wait to be applied, else every `state_interval_s` ± 20 %; at once
after a reconnect and after a nudge; and again and again while the hub is not ONLINE, as the probe that
finds it when it comes back.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Awaitable, Callable
from typing import Final

from contract.encoding import EncodingError, compress, decode, encode
from contract.messages import SCHEMA_VERSION, StateAnswer, StateReport
from contract.status import Health, Status
from contract.subjects import ENCODING, SCHEMA, state_subject
from edge_agent.errors import LinkError
from edge_agent.observe.events import Event
from edge_agent.observe.logs import get_logger
from edge_agent.settings import HubSettings
from edge_agent.types import HubLink

_log = get_logger()

TIMEOUT_S: Final = 5.0
_LOOK_S: Final = 1.0
_MORE_S: Final = 0.05
_RISING_S: Final = 0.5
_PROBES_S: Final = (0.5, 1.0, 2.0, 5.0)


class StateExchange:
    """Exchanges states; `run` is its one task.

    `report` is called for each exchange; `on_answer` gets the report that was sent and the answer to it.
    Failure: an exchange that fails is repeated; `run` raises only what `report` or `on_answer` raise.
    """

    def __init__(
        self,
        link: HubLink,
        *,
        device: str,
        settings: HubSettings,
        report: Callable[[], StateReport],
        on_answer: Callable[[StateReport, StateAnswer], Awaitable[None]],
        draining: Callable[[], bool],
    ) -> None:
        self._link = link
        self._subject = state_subject(device)
        self._settings = settings
        self._report = report
        self._on_answer = on_answer
        self._draining = draining
        self._wanted = asyncio.Event()
        self._connection = 0
        self._last_s = -1e9
        self._pause_s = 0.0
        self._failures = 0
        self._random = secrets.SystemRandom()

    def nudge(self) -> None:
        """Asks for an exchange at once: assign it to `Link.on_nudge`."""
        self._pause_s = 0.0
        self._wanted.set()

    def look(self) -> None:
        """Looks again whether one is due: assign it to `Link.on_change`."""
        self._wanted.set()

    async def run(self) -> None:
        """Exchanges states for ever."""
        while True:
            await self._until_due()
            await self._exchange()

    async def _until_due(self) -> None:
        loop = asyncio.get_running_loop()
        spread = self._random.uniform(0.8, 1.2)
        while True:
            self._wanted.clear()
            state = self._link.state()
            if state.connection and state.connection != self._connection:
                self._connection = state.connection
                return
            pause_s = self._pause_s
            if pause_s < 0:
                pause_s = self._settings.state_interval_s * spread
                if self._draining():
                    pause_s = min(pause_s, self._settings.drain_state_interval_s)
                if state.health is not Health.ONLINE:
                    pause_s = min(pause_s, self._settings.probe_interval_s)
            left_s = self._last_s + pause_s - loop.time()
            if left_s <= 0 and state.connection:
                return
            try:
                async with asyncio.timeout(min(left_s, _LOOK_S) if left_s > 0 else _LOOK_S):
                    await self._wanted.wait()
            except TimeoutError:
                continue

    async def _exchange(self) -> None:
        """One exchange; sets how long to wait for the next, -1 for the configured interval."""
        report = self._report()
        body, encoding = compress(encode(report))
        headers = {SCHEMA: str(SCHEMA_VERSION), ENCODING: encoding}
        self._pause_s = -1.0
        try:
            reply = await self._link.request(
                self._subject, body, headers=headers, timeout_s=TIMEOUT_S
            )
            answer = _answer_in(reply.status, reply.body)
        except LinkError as error:
            _log.debug(Event.STATE_EXCHANGE_FAILED, error=str(error))
            self._pause_s = _PROBES_S[min(self._failures, len(_PROBES_S) - 1)]
            self._failures += 1
            if self._failures > len(_PROBES_S):
                self._pause_s = self._settings.probe_interval_s
        else:
            self._failures = 0
            await self._on_answer(report, answer)
            if answer.revisions:
                self._pause_s = _MORE_S
            elif self._link.state().health is not Health.ONLINE:
                self._pause_s = _RISING_S
        finally:
            self._last_s = asyncio.get_running_loop().time()


def _answer_in(status: Status, body: bytes) -> StateAnswer:
    if status is not Status.OK:
        raise LinkError(f"the hub answered the state exchange with {status}")
    try:
        return decode(body, StateAnswer)
    except EncodingError as error:
        raise LinkError(f"the hub's answer to the state exchange: {error}") from error
