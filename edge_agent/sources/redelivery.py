"""Recognises packets that were taken before (pure): a broker repeats what it saw no acknowledgement for.

A packet id is taken again with DUP = 0 when the broker has moved on; until then a DUP = 1 packet
with the same id and the same content is the same message.

nats-server may also repeat a message whose acknowledgement it has read, after a lost connection, and
then gives it a new id. A repeat under an unknown id whose content is known is a *suspect*: it may be
that, or another message that happens to say the same. Only its time can tell (`pipeline/intake.py`).

What is known ages: an id that was taken half the id space ago belongs to another message by now, and a
session that the broker began anew knows none of the old ids.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

import numpy as np

from edge_agent.types import MessageBatch, Packets

KEPT_IDS = 32_768
"""Ids known of a session: more than any broker has in flight, half of those there are."""
ANEW = 0
"""No message has this packet id: among stored ids it says that the session began anew there."""


@dataclass(frozen=True, slots=True)
class Sifted:
    """The messages that are new, the packet ids to store with them, and how many were repeats.

    `suspects` are indexes into `fresh`.
    """

    fresh: MessageBatch
    packets: Packets | None
    repeated: int
    suspects: frozenset[int] = frozenset()


class Redelivery:
    """The packet ids that were taken, by broker session, with a hash of each content."""

    def __init__(self) -> None:
        """Knows none."""
        self._known: dict[str, dict[int, int]] = {}

    def restore(self, packets: tuple[Packets, ...]) -> None:
        """Takes in what was stored, oldest first."""
        for each in packets:
            for mid, digest in zip(each.mids.tolist(), each.hashes.tolist(), strict=True):
                if mid == ANEW:
                    self._known.pop(each.session, None)
                else:
                    _note(self._known.setdefault(each.session, {}), mid, digest)

    def sift(self, batch: MessageBatch) -> Sifted:
        """Drops repeats and remembers the rest; at most `KEPT_IDS` ids a session are ever known."""
        mids: list[int] = []
        hashes: list[int] = []
        if batch.new_session:
            self._known.pop(batch.session, None)
            mids.append(ANEW)
            hashes.append(0)
        known = self._known.setdefault(batch.session, {})
        repeats: list[int] = []
        suspects: list[int] = []
        contents: set[int] | None = None
        for index, qos in enumerate(batch.qos):
            if not qos:
                continue
            mid = batch.mids[index]
            digest = _digest(batch.topics[index], batch.payloads[index])
            if batch.dup[index] and known.get(mid) == digest:
                repeats.append(index)
                continue
            if batch.dup[index]:
                if contents is None:
                    contents = set(known.values())
                if digest in contents:
                    suspects.append(index - len(repeats))
            if contents is not None:
                contents.add(digest)
            _note(known, mid, digest)
            mids.append(mid)
            hashes.append(digest)
        packets = None
        if mids:
            packets = Packets(
                batch.session, np.array(mids, dtype=np.uint16), np.array(hashes, dtype=np.uint64)
            )
        return Sifted(_without(batch, repeats), packets, len(repeats), frozenset(suspects))


def _note(known: dict[int, int], mid: int, digest: int) -> None:
    """Remembers an id as the newest; the oldest beyond `KEPT_IDS` is forgotten."""
    known.pop(mid, None)
    known[mid] = digest
    if len(known) > KEPT_IDS:
        del known[next(iter(known))]


def _digest(topic: str | None, payload: bytes) -> int:
    content = (topic or "").encode("utf-8", "surrogatepass") + b"\0" + payload
    return int.from_bytes(hashlib.blake2b(content, digest_size=8).digest(), "little")


def _without(batch: MessageBatch, dropped: list[int]) -> MessageBatch:
    if not dropped:
        return batch
    gone = set(dropped)
    kept = [index for index in range(len(batch)) if index not in gone]
    return MessageBatch(
        session=batch.session,
        topics=[batch.topics[index] for index in kept],
        payloads=[batch.payloads[index] for index in kept],
        qos=[batch.qos[index] for index in kept],
        mids=[batch.mids[index] for index in kept],
        dup=[batch.dup[index] for index in kept],
        retained=[batch.retained[index] for index in kept],
        arrivals_s=batch.arrivals_s[kept],
        arrivals_ns=batch.arrivals_ns[kept],
    )
