"""The table at the end, on standard output."""

from __future__ import annotations

from typing import Any, TextIO

from rich.console import Console
from rich.table import Table
from rich.text import Text

from deploy.demo.report import Report

_WIDTH = 100


def print_table(report: Report, stream: TextIO) -> None:
    """The figures, then every promise and what was seen of it."""
    console = Console(file=stream, width=None if stream.isatty() else _WIDTH)
    console.print(_figures(report.content))
    table = Table("promise", "seen", "", title="Promises", title_justify="left")
    for promise in report.promises:
        mark = Text("held", style="green") if promise.held else Text("BROKEN", style="bold red")
        table.add_row(promise.text, promise.seen, mark)
    console.print(table)


def _figures(content: dict[str, Any]) -> Table:
    table = Table("what", "figure", title="What happened", title_justify="left")
    offline, ledger, clocks = content["offline"], content["ledger"], content["clocks"]
    revisions = content["revisions"]
    rows = {
        "readings": f"{content['readings']:,} in {content['seconds']:.0f} s",
        "verdicts": f"{content['verdicts']:,}: {_counts(content['by_tier'])}",
        "put to the hub": f"{content['escalations']} windows, {revisions['queued']} of them queued "
        f"while it was away; {revisions['revised']} revised later, {revisions['disagreed']} "
        "otherwise than the device had said",
        "local verdicts, ms": _times(content["latency_ms"]),
        "  by the device's clock": _times(clocks["device_ms"]),
        "  by a bystander's": _times(clocks["wire_ms"]),
        "while the hub was away": f"{offline['seconds']} s, {offline['verdicts']:,} verdicts: "
        f"{_counts(offline['by_tier'])}; {offline['missed']} late",
        "ledgers": f"sent {ledger['sent']:,}, acknowledged {ledger['acknowledged']:,}, "
        f"stored {ledger['stored']:,}, lost {ledger['lost']}, twice {ledger['duplicate']}",
    }
    for what, figure in rows.items():
        table.add_row(what, figure)
    return table


def _counts(counts: dict[str, int]) -> str:
    return ", ".join(f"{name} {count:,}" for name, count in sorted(counts.items()))


def _times(times: dict[str, float]) -> str:
    return "   ".join(f"{name} {value:.1f}" for name, value in times.items())
