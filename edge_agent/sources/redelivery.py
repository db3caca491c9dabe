"""Recognises packets that were taken before (pure): a broker repeats what it saw no acknowledgement for.

A packet id is taken again with DUP = 0 when the broker has moved on; until then a DUP = 1 packet
with the same id and the same content is the same message.

nats-server may also repeat a message whose acknowledgement it has read, after a lost connection, and
then gives it a new id. A repeat under an unknown id whose content is known is a *suspect*: it may be
that, or another message that happens to say the same. Only its time can tell (`pipeline/intake.py`).
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

import numpy as np

from edge_agent.types import MessageBatch, Packets


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
            known = self._known.setdefault(each.session, {})
            known.update(zip(each.mids.tolist(), each.hashes.tolist(), strict=True))

    def sift(self, batch: MessageBatch) -> Sifted:
        """Drops repeats and remembers the rest; at most 65,535 ids a session are ever known."""
        known = self._known.setdefault(batch.session, {})
        mids: list[int] = []
        hashes: list[int] = []
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
            known[mid] = digest
            mids.append(mid)
            hashes.append(digest)
        packets = None
        if mids:
            packets = Packets(
                batch.session, np.array(mids, dtype=np.uint16), np.array(hashes, dtype=np.uint64)
            )
        return Sifted(_without(batch, repeats), packets, len(repeats), frozenset(suspects))


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
