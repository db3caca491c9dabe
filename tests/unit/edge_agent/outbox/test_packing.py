import os

from contract.encoding import MAX_MESSAGE_BYTES, decode, expand
from contract.messages import RowMessage
from contract.status import Lane, RowClass
from contract.subjects import ENCODING, MSG_ID
from edge_agent.outbox.packing import Sender, pack, run_of
from edge_agent.types import StoredRow

SENDER = Sender("pump-1", "e1")


def row(seq: int, size: int = 100, model: str = "", kind: RowClass = RowClass.RAW) -> StoredRow:
    return StoredRow(seq, kind, os.urandom(size), 1, model, 0.0)


def test_a_message_is_never_over_the_limit_and_nearly_fills_it():
    rows = [row(seq, 1000) for seq in range(1, 400)]
    taken = run_of(rows, lane=Lane.TEL)
    message = pack(taken, lane=Lane.TEL, after=0, sender=SENDER)
    assert 0.9 * MAX_MESSAGE_BYTES < message.size <= MAX_MESSAGE_BYTES


def test_a_row_that_is_too_large_alone_is_a_message_of_its_own():
    assert len(run_of([row(1, 300_000), row(2)], lane=Lane.TEL)) == 1


def test_a_bulk_message_ends_where_the_model_changes():
    kind = RowClass.ESCALATION
    rows = [row(1, 10, "a", kind), row(2, 10, "a", kind), row(3, 10, "b", kind)]
    taken = run_of(rows, lane=Lane.BULK)
    assert [one.seq for one in taken] == [1, 2]
    assert pack(taken, lane=Lane.BULK, after=0, sender=SENDER).subject == "edge.v1.pump-1.bulk.a"


def test_a_message_says_what_it_holds_and_reads_back():
    rows = (row(4), row(6))
    message = pack(rows, lane=Lane.TEL, after=3, sender=SENDER)
    assert message.headers[MSG_ID] == "pump-1:e1:tel:4-6"
    body = decode(expand(message.body, message.headers[ENCODING]), RowMessage)
    assert [(one.seq, one.body) for one in body.rows] == [(one.seq, one.body) for one in rows]
    assert (message.after, message.last) == (3, 6)


def test_a_message_that_repairs_has_a_new_id():
    rows = (row(4),)
    message = pack(rows, lane=Lane.TEL, after=3, sender=SENDER, repair="r1")
    assert message.headers[MSG_ID] == "pump-1:e1:tel:4-4:r1"
