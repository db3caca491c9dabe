"""An honest in-memory twin of the hub's side: streams that deduplicate, and a database with one key.

It can fail as the real ones do: lose a message, store it and lose the acknowledgement, refuse it, or be
away. What it stores it also checks: a row that comes again must be the same.
"""

import asyncio
from dataclasses import dataclass, field
from random import Random

from contract.encoding import decode, expand
from contract.messages import Gap, RowMessage, Watermark
from contract.status import Health, Lane, RowClass, Status
from contract.subjects import ENCODING, MSG_ID
from edge_agent.errors import LinkDown, LinkTimeout, Refused
from edge_agent.outbox.gaps import covers
from edge_agent.types import LinkState, Reply


@dataclass
class HubTwin:
    """Implements HubLink; `rows` is the database."""

    random: Random = field(default_factory=Random)
    lose: float = 0.0
    lose_ack: float = 0.0
    cut: float = 0.0
    poison: set[tuple[Lane, int]] = field(default_factory=set)
    connection: int = 1
    rows: dict[tuple[str, Lane, int], tuple[RowClass, bytes]] = field(default_factory=dict)
    order: dict[Lane, list[int]] = field(default_factory=lambda: {lane: [] for lane in Lane})
    ids: set[str] = field(default_factory=set)
    messages: int = 0
    duplicates: int = 0
    largest: int = 0
    in_flight: int = 0
    most_in_flight: int = 0
    subjects: list[str] = field(default_factory=list)
    forget: set[tuple[Lane, int]] = field(default_factory=set)
    """Rows that the stream acknowledges and then loses, once."""

    def state(self) -> LinkState:
        return LinkState(Health.ONLINE, 1.0, 0.0, "", self.connection)

    async def request(self, subject, body, *, headers, timeout_s) -> Reply:
        return Reply(Status.OK, b"")

    def send(self, subject, body) -> None:
        pass

    async def publish(self, subject, body, *, headers, timeout_s) -> None:
        if not self.connection:
            raise LinkDown("away")
        self.in_flight += 1
        self.most_in_flight = max(self.most_in_flight, self.in_flight)
        try:
            await asyncio.sleep(0)
            self._take(subject, body, headers)
        finally:
            self.in_flight -= 1

    def _take(self, subject, body, headers) -> None:
        self.messages += 1
        self.largest = max(
            self.largest, len(body) + sum(len(k) + len(v) for k, v in headers.items())
        )
        if self.random.random() < self.cut:
            self.connection += 1
            raise LinkDown("cut")
        if self.random.random() < self.lose:
            raise LinkTimeout("lost on the way")
        message = decode(expand(body, headers[ENCODING]), RowMessage)
        if any((message.lane, row.seq) in self.poison for row in message.rows):
            raise Refused("poison")
        self.subjects.append(subject)
        if headers[MSG_ID] in self.ids:
            self.duplicates += 1
        else:
            self.ids.add(headers[MSG_ID])
            self._store(message)
        if self.random.random() < self.lose_ack:
            raise LinkTimeout("stored, and the acknowledgement was lost")

    def _store(self, message: RowMessage) -> None:
        for row in message.rows:
            key = (message.epoch, message.lane, row.seq)
            if (message.lane, row.seq) in self.forget:
                self.forget.discard((message.lane, row.seq))
                continue
            if key in self.rows:
                assert self.rows[key] == (row.kind, row.body), "a row came again and differs"
                continue
            self.rows[key] = (row.kind, row.body)
            self.order[message.lane].append(row.seq)

    def gaps(self) -> list[Gap]:
        return [decode(body, Gap) for kind, body in self.rows.values() if kind is RowClass.GAP]

    def watermark(self, epoch: str, lane: Lane, *, pending: int = 0) -> Watermark:
        """What the database holds of a lane, gaps counted as held."""
        gaps = [gap for gap in self.gaps() if gap.lane is lane]
        held = {seq for one, of, seq in self.rows if one == epoch and of is lane}
        top = max([*held, *(gap.last for gap in gaps)], default=0)
        missing: list[tuple[int, int]] = []
        applied = 0
        for seq in range(1, top + 1):
            if seq in held or any(covers(gap, seq) for gap in gaps):
                if not missing:
                    applied = seq
            elif missing and missing[-1][1] == seq - 1:
                missing[-1] = (missing[-1][0], seq)
            else:
                missing.append((seq, seq))
        return Watermark(epoch, applied, tuple(missing), pending)
