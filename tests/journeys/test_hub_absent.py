"""The hub has never existed: the device answers, its outbox keeps its budget, and what it gave up is declared."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench.offline import Load, offline


@pytest.mark.needs_mosquitto
@pytest.mark.timeout(120)
async def test_without_a_hub_under_load_the_outbox_keeps_its_budget_and_declares_what_it_shed(
    tmp_path: Path,
) -> None:
    load = Load(seconds=12, rate=2500, streams=20, max_bytes=2 * 1024 * 1024)
    report = await offline(tmp_path, load)
    assert report.sent == 30_000
    assert report.verdicts == report.verdicts_expected
    assert report.missed_deadlines == 0
    assert report.disk_bytes_max <= report.budget_bytes
    assert report.outbox_faults == []
    assert report.log_repeats == []
    # Something was shed, and the hub has been told of exactly that.
    assert report.missing > 0
    assert report.declared_gaps == report.missing
    assert report.stored == report.sent - report.missing
    assert report.duplicate == report.phantom == 0
    assert report.ok
