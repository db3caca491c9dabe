"""`edge-agent outbox`: what a person sees of the durable queue."""

import json
from pathlib import Path
from typing import Any

from contract.status import RowClass
from edge_agent.cli.outbox import lines
from edge_agent.clock import SystemClock
from edge_agent.outbox.store import Outbox
from edge_agent.settings import OutboxSettings
from edge_agent.types import Commit, NewRow

CLOCK = SystemClock()


async def look(folder: Path) -> dict[str, Any]:
    outbox = await Outbox.open(folder, settings=OutboxSettings(), clock=CLOCK)
    await outbox.submit(
        Commit(rows=(NewRow(RowClass.RAW, b"r" * 100, 7), NewRow(RowClass.ALARM, b"!")))
    )
    await outbox.set_aside(RowClass.RAW.lane, 1, "too_large")
    found = await outbox.inspect()
    await outbox.close()
    answer: dict[str, Any] = json.loads(json.dumps(found))
    return answer


async def test_it_shows_lanes_classes_and_what_was_set_aside_with_its_reason(tmp_path):
    found = await look(tmp_path)
    assert found["classes"]["alarm"]["rows"] == 1
    assert found["classes"]["raw"]["shed_readings"] == 7
    assert found["classes"]["raw"]["max_age_s"] == 30 * 86400
    assert found["classes"]["gap"]["budget_bytes"] is None
    (dead,) = found["dead_letters"]
    assert (dead["lane"], dead["seq"], dead["reason"]) == ("tel", 1, "too_large")
    text = "\n".join(lines(found))
    assert "tel 1 (raw)" in text
    assert "too_large" in text
    assert "of 536.9 MB" in text


async def test_it_says_what_stops_the_outbox_and_what_the_disk_allows(tmp_path):
    found = await look(tmp_path) | {"fault": "StoreFull: no room", "limit_bytes": 1_000_000}
    text = "\n".join(lines(found))
    assert "FAULT  StoreFull: no room" in text
    assert "the disk allows 1.0 MB" in text
