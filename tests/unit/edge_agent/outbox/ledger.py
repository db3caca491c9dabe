"""What is in an outbox, and whether it adds up with what was given to it."""

from contract.encoding import decode
from contract.messages import Gap
from contract.status import Lane, RowClass
from edge_agent.outbox.gaps import covers
from edge_agent.outbox.store import Outbox
from edge_agent.types import StoredRow


async def rows_of(outbox: Outbox, lane: Lane = Lane.TEL, after: int = 0) -> list[StoredRow]:
    """Every row of a lane."""
    found: list[StoredRow] = []
    while rows := await outbox.read(lane, after=after, max_bytes=100_000, max_rows=100):
        found += rows
        after = rows[-1].seq
    return found


async def gaps_of(outbox: Outbox, lane: Lane = Lane.TEL) -> list[Gap]:
    """The gaps that the outbox declares in a lane."""
    rows = await rows_of(outbox, Lane.EVT)
    gaps = [decode(row.body, Gap) for row in rows if row.kind is RowClass.GAP]
    return [gap for gap in gaps if gap.lane is lane]


async def account(outbox: Outbox, given: dict[int, int]) -> tuple[dict[int, int], dict[int, int]]:
    """Asserts that what is kept and what is declared as given up is exactly what was given."""
    kept = {row.seq: row.readings for row in await rows_of(outbox)}
    gaps = await gaps_of(outbox)
    assert all(given[seq] == readings for seq, readings in kept.items())
    lost = {seq: readings for seq, readings in given.items() if seq not in kept}
    assert {seq for seq in given if any(covers(gap, seq) for gap in gaps)} == set(lost)
    assert sum(gap.readings for gap in gaps) == sum(lost.values())
    return kept, lost
