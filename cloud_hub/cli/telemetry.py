"""`cloud-hub telemetry query`: stored readings, with the gaps that devices declared."""

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

from cloud_hub.cli.options import Config, Json, console, iso, parse_time, print_json
from cloud_hub.cli.reading import read
from cloud_hub.errors import HubError
from cloud_hub.store.fleet_queries import show_device
from cloud_hub.store.telemetry_queries import MAX_READINGS, TelemetryAnswer, query_telemetry

telemetry_app = typer.Typer(help="Readings that devices sent.", no_args_is_help=True)

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
        if await show_device(connection, device) is None:
            raise HubError(
                f"no device {device!r} has been heard of; `cloud-hub device list` shows those that were"
            )
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
        for time_s, arrival_s, values, flags in zip(*columns, group.flags.tolist(), strict=True):
            yield {
                "stream": group.stream,
                "time": iso(time_s),
                "time_s": time_s,
                "arrival_s": arrival_s,
                "flags": flags,
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


def _print_table(answer: TelemetryAnswer) -> None:
    table = Table("stream", "time", "values", "flags")
    for reading in _readings(answer):
        values = ", ".join(
            f"{channel} {'—' if value is None else format(value, 'g')}"
            for channel, value in reading["values"].items()
        )
        table.add_row(
            escape(reading["stream"]), reading["time"], escape(values), str(reading["flags"])
        )
    out = console()
    out.print(table)
    for gap in answer.gaps:
        between = f"between {iso(gap.after_s) or '?'} and {iso(gap.before_s) or '?'}"
        kept = f", every {gap.stride}th row kept" if gap.stride > 1 else ""
        out.print(f"gap: {gap.readings} readings given up {between}{kept} ({escape(gap.reason)})")
    if answer.truncated:
        out.print(
            "Older readings were left out: raise --limit, or name a range with --from and --to."
        )
