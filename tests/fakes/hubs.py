"""A hub in memory that answers, dawdles, refuses or is away, as a test says for each request."""

import asyncio
from enum import StrEnum

from contract.encoding import decode, encode
from contract.messages import InferAnswer, InferRequest
from contract.status import Priority, Status
from edge_agent.errors import LinkDown, LinkTimeout, NoResponders, Refused
from edge_agent.types import Reply


class Behaviour(StrEnum):
    """What becomes of one request."""

    ANSWER = "answer"
    LATE = "late"
    BUSY = "busy"
    LATE_BUSY = "late_busy"
    LATE_NO_MODEL = "late_no_model"
    EXPIRED = "expired"
    NO_MODEL = "no_model"
    NO_RESPONDERS = "no_responders"
    LINK_DOWN = "link_down"
    TIMEOUT = "timeout"
    TOO_LARGE = "too_large"
    SILENCE = "silence"
    BAD_BODY = "bad_body"
    WRONG_ROWS = "wrong_rows"
    NOT_FINITE = "not_finite"
    CANCELLED = "cancelled"
    CRASH = "crash"


RAISES = {
    Behaviour.NO_RESPONDERS: NoResponders,
    Behaviour.LINK_DOWN: LinkDown,
    Behaviour.TIMEOUT: LinkTimeout,
    Behaviour.TOO_LARGE: Refused,
    Behaviour.CRASH: RuntimeError,
    Behaviour.CANCELLED: asyncio.CancelledError,
}
STATUS = {
    Behaviour.BUSY: Status.BUSY,
    Behaviour.LATE_BUSY: Status.BUSY,
    Behaviour.EXPIRED: Status.EXPIRED,
    Behaviour.NO_MODEL: Status.NO_MODEL,
    Behaviour.LATE_NO_MODEL: Status.NO_MODEL,
}

LATE = {Behaviour.LATE, Behaviour.LATE_BUSY, Behaviour.LATE_NO_MODEL}


class HubTwin:
    """Takes behaviours in order of the requests; the last one stands for all that follow.

    An answer says `hub`, score 7, confidence 0.99 for every row; a late one comes `late_s` after
    the request.
    """

    def __init__(self, *behaviours: Behaviour, late_s: float = 0.06) -> None:
        self._behaviours = list(behaviours)
        self._late_s = late_s
        self.requests: list[InferRequest] = []
        self.budgets_ms: list[float] = []
        self.given_up: list[str] = []

    async def ask(
        self,
        *,
        request_id: str,
        model: str,
        priority: Priority,
        body: bytes,
        budget_ms: float,
        timeout_s: float,
    ) -> Reply:
        behaviour = self._behaviours[min(len(self.requests), len(self._behaviours) - 1)]
        request = decode(body, InferRequest)
        assert request.model == model
        self.requests.append(request)
        self.budgets_ms.append(budget_ms)
        try:
            async with asyncio.timeout(timeout_s):
                return await self._behave(behaviour, request)
        except TimeoutError:
            raise LinkTimeout("no answer") from None
        except asyncio.CancelledError:
            self.given_up.append(request_id)
            raise

    async def _behave(self, behaviour: Behaviour, request: InferRequest) -> Reply:
        if behaviour is Behaviour.SILENCE:
            await asyncio.Event().wait()
        late = behaviour in LATE
        await asyncio.sleep(self._late_s if late else 0.0)
        if behaviour in RAISES:
            raise RAISES[behaviour](str(behaviour))
        if behaviour in STATUS:
            return Reply(STATUS[behaviour], b"")
        if behaviour is Behaviour.BAD_BODY:
            return Reply(Status.OK, b"\xc1 no answer")
        rows = request.features.shape[0] + (behaviour is Behaviour.WRONG_ROWS)
        score = float("nan") if behaviour is Behaviour.NOT_FINITE else 7.0
        answer = InferAnswer(request.model, 9, ("hub",) * rows, (score,) * rows, (0.99,) * rows)
        return Reply(Status.OK, encode(answer))
