"""`cloud-hub telemetry query|stats`: stored readings, with the gaps that devices declared."""

from __future__ import annotations

import csv
import math
import sys
from collections.abc import Iterator
from dataclasses import asdict
from typing import Annotated, Any

import typer
from rich.markup import escape
from rich.table import Table

from cloud_hub.cli.figures import stats
from cloud_hub.cli.gaps import gap_line
from cloud_hub.cli.options import Config, Json, console, iso, parse_time, print_json
from cloud_hub.cli.reading import check_known, read
from cloud_hub.store.telemetry_queries import MAX_READINGS, TelemetryAnswer, query_telemetry
from contract.trust import ReadingFlag

telemetry_app = typer.Typer(help="Readings that devices sent.", no_args_is_help=True)
telemetry_app.command("stats")(stats)

FORMULA_STARTS = ("=", "+", "-", "@", "\t", "\r")


@telemetry_app.command("query")
def query_command(
    *,
    device: Annotated[str, typer.Option(help="Name of the device.")],
    stream: Annotated[str | None, typer.Option(help="Only this stream.")] = None,
    from_time: Annotated[
        str | None, typer.Option("--from", help="First time, ISO 8601 or seconds since 1970.")
    ] = None,
    to_time: Annotated[str | None, typer.Option("--to", help="Time after the last.")] = None,
    limit: Annotated[int, typer.Option(min=1, max=MAX_READINGS, help="The newest so many.")] = 1000,
    config: Config = None,
    as_json: Json = False,
    as_csv: Annotated[
        bool, typer.Option("--csv", help="Print CSV, one line a channel value.")
    ] = False,
) -> None:
    """Prints readings in order of time, and says where readings were given up."""
    if as_json and as_csv:
        raise typer.BadParameter("--json and --csv exclude each other", param_hint="--csv")
    from_s, to_s = parse_time(from_time, "--from"), parse_time(to_time, "--to")

    async def work(connection: Any) -> TelemetryAnswer:
        await check_known(connection, device)
        return await query_telemetry(
            connection, device, stream=stream, from_s=from_s, to_s=to_s, limit=limit
        )

    answer = read(config, work)
    if as_json:
        readings = list(_readings(answer))
        gaps = [asdict(gap) for gap in answer.gaps]
        print_json({"readings": readings, "gaps": gaps, "truncated": answer.truncated})
    elif as_csv:
        _print_csv(answer)
    else:
        _print_table(answer)


def _readings(answer: TelemetryAnswer) -> Iterator[dict[str, Any]]:
    """One record a reading; a channel that was missing or rejected is null."""
    for group in answer.groups:
        columns = (group.times.tolist(), group.arrivals.tolist(), group.values.tolist())
        rest = (group.flags.tolist(), group.own.tolist())
        for time_s, arrival_s, values, flags, own_s in zip(*columns, *rest, strict=True):
            yield {
                "stream": group.stream,
                "time": iso(time_s),
                "time_s": time_s,
                "arrival_s": arrival_s,
                "flags": flags,
                "own_s": own_s if math.isfinite(own_s) else None,
                "shift_s": group.shift_s or 0.0,
                "values": {
                    channel: value if math.isfinite(value) else None
                    for channel, value in zip(group.channels, values, strict=True)
                },
            }


def _print_csv(answer: TelemetryAnswer) -> None:
    writer = csv.writer(sys.stdout)
    writer.writerow(["stream", "time", "time_s", "flags", "channel", "value"])
    for reading in _readings(answer):
        head = [_text(reading["stream"]), reading["time"], reading["time_s"], reading["flags"]]
        for channel, value in reading["values"].items():
            writer.writerow([*head, _text(channel), "" if value is None else value])


def _text(text: str) -> str:
    """A text cell that no spreadsheet takes for a formula."""
    return f"'{text}" if text.startswith(FORMULA_STARTS) else text


def _flags(flags: int) -> str:
    return ", ".join(str(flag.name).lower() for flag in ReadingFlag(flags)) or "—"


def _print_table(answer: TelemetryAnswer) -> None:
    table = Table("stream", "time", "values", "flags")
    for reading in _readings(answer):
        values = ", ".join(
            f"{channel} {'—' if value is None else format(value, 'g')}"
            for channel, value in reading["values"].items()
        )
        table.add_row(
            escape(reading["stream"]), reading["time"], escape(values), _flags(reading["flags"])
        )
    out = console()
    out.print(table)
    for gap in answer.gaps:
        out.print(gap_line(gap))
    if answer.truncated:
        out.print(
            "Older readings were left out: raise --limit, or name a range with --from and --to."
        )
