"""The sheet of a rehearsal, for people and for machines. Pure."""

from __future__ import annotations

from typing import Any, Final

from edge_agent.rehearse.judging import DrillResult
from edge_agent.rehearse.rehearsal import Sheet

_HEAD: Final = (
    "drill", "", "readings", "lost", "twice", "recovery s", "late", "verdict p99 ms", "what happened",
)  # fmt: skip
_TOLD: Final = {
    "kills": "{} kills",
    "swallowed_bytes": "{:,} bytes swallowed",
    "limit_bytes": "files limited to {:,} bytes",
    "times_flagged": "{:,} times flagged",
    "flipped_rows": "{} places flipped",
    "declared": "{:,} declared as given up",
    "dead_letters": "{} dead letter",
    "gaps": "{} gap",
}


def as_json(sheet: Sheet) -> dict[str, Any]:
    """The sheet for machines."""
    return {
        "drills": [_drill(drill) for drill in sheet.drills],
        "ok": sheet.ok,
        "servers": sheet.servers,
        "device": sheet.device,
        "backlog": sheet.backlog,
        "copy": {"bytes": sheet.copy.bytes, "why": sheet.copy.why},
        "notes": sheet.notes,
        "seconds": sheet.seconds,
        "folder": None if sheet.folder is None else str(sheet.folder),
    }


def as_text(sheet: Sheet) -> str:
    """The sheet for people."""
    lines = [f"rehearsal of {sheet.device}"]
    lines += [f"  {name:<7} {what}" for name, what in sheet.servers.items()]
    if sheet.backlog:
        owed = sheet.backlog
        lines.append(
            f"  outbox  a copy: {owed['readings']:,} readings were owed, {owed['stored']:,} stored, "
            f"{owed['lost']:,} lost"
        )
    elif sheet.copy.files:
        lines.append("  outbox  a copy, nothing owed")
    else:
        lines.append(f"  outbox  a new one: {sheet.copy.why}")
    lines += [f"  note    {note}" for note in sheet.notes]
    lines += ["", *_table([_HEAD, *map(_row, sheet.drills)]), ""]
    for drill in sheet.drills:
        lines += [f"{drill.name}: {reason}" for reason in drill.why]
    passed = sum(1 for drill in sheet.drills if drill.passed)
    word = "passed" if sheet.ok else "FAILED"
    lines.append(f"{word}: {passed} of {len(sheet.drills)} drills in {sheet.seconds:g} s")
    if sheet.folder is not None:
        lines.append(f"kept in {sheet.folder}")
    return "\n".join(lines)


def _drill(drill: DrillResult) -> dict[str, Any]:
    return {
        "name": drill.name,
        "pass": drill.passed,
        "readings": drill.readings,
        "lost": drill.lost,
        "duplicate": drill.duplicate,
        "recovery_s": drill.recovery_s,
        **drill.figures,
        "why": list(drill.why),
    }


def _row(drill: DrillResult) -> tuple[str, ...]:
    figures = drill.figures
    told = [text.format(figures[name]) for name, text in _TOLD.items() if figures.get(name)]
    return (
        drill.name,
        "pass" if drill.passed else "FAIL",
        f"{drill.readings:,}",
        f"{drill.lost:,}",
        f"{drill.duplicate:,}",
        "-" if drill.recovery_s is None else f"{drill.recovery_s:.1f}",
        f"{figures.get('deadline_misses', '-')}",
        f"{figures.get('verdict_p99_ms', '-')}",
        ", ".join(told),
    )


def _table(rows: list[tuple[str, ...]]) -> list[str]:
    widths = [max(len(row[column]) for row in rows) for column in range(len(_HEAD))]
    left = {0, 1, len(_HEAD) - 1}
    return [
        "  ".join(
            cell.ljust(width) if column in left else cell.rjust(width)
            for column, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    ]
