"""Which deliveries still need their PUBACK (pure).

A broker may send a message again on the same connection while we work on it (nats-server does so
after its `ack_wait`). Only one PUBACK may then go out: a second one could hit a newer message that
has been given the same packet id meanwhile, and the broker would forget that one unread.
"""

from __future__ import annotations

_REMEMBERED = 8192


class Receipts:
    """Gives each delivery a receipt; exactly one PUBACK goes out per message and connection.

    Receipts are never 0 and never repeat, so those of an earlier connection mean nothing later.
    """

    def __init__(self) -> None:
        self._last = 0
        self._open: dict[int, int] = {}
        self._done: dict[int, None] = {}

    def begin_connection(self) -> None:
        """Packet ids start afresh: what was delivered before can no longer be acknowledged."""
        self._open.clear()
        self._done.clear()

    def deliver(self, mid: int, *, dup: bool) -> int:
        """The receipt of a QoS 1 delivery; 0 when its PUBACK is on its way already."""
        if dup:
            receipt = self._open.get(mid)
            if receipt is not None:
                return receipt
            if mid in self._done:
                return 0
        else:
            self._done.pop(mid, None)
        self._last += 1
        self._open[mid] = self._last
        return self._last

    def in_hand(self, mid: int) -> bool:
        """Whether a delivery of this id on this connection is in our hands, its PUBACK still to come."""
        return mid in self._open

    def settle(self, mid: int, receipt: int) -> bool:
        """Whether the PUBACK of this delivery is to be sent now."""
        if self._open.get(mid) != receipt:
            return False
        del self._open[mid]
        self._done[mid] = None
        if len(self._done) > _REMEMBERED:  # ids come round again; then a DUP is another message's
            del self._done[next(iter(self._done))]
        return True
