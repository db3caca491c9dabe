"""`cloud-hub telemetry stats`: figures of each channel, and how much of the span is here."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated, Any

import typer
from rich.markup import escape
from rich.table import Table

from cloud_hub.cli.gaps import gap_line
from cloud_hub.cli.options import Config, Json, console, iso, parse_time, print_json
from cloud_hub.cli.reading import check_known, read
from cloud_hub.store.statistics import Figures, telemetry_figures


def stats(
    *,
    device: Annotated[str, typer.Option(help="Name of the device.")],
    stream: Annotated[str | None, typer.Option(help="Only this stream.")] = None,
    from_time: Annotated[
        str | None, typer.Option("--from", help="First time, ISO 8601 or seconds since 1970.")
    ] = None,
    to_time: Annotated[str | None, typer.Option("--to", help="Time after the last.")] = None,
    config: Config = None,
    as_json: Json = False,
) -> None:
    """Prints count, smallest, largest and mean of each channel, and what readings of the span are missing."""
    from_s, to_s = parse_time(from_time, "--from"), parse_time(to_time, "--to")

    async def work(connection: Any) -> Figures:
        await check_known(connection, device)
        return await telemetry_figures(connection, device, stream=stream, from_s=from_s, to_s=to_s)

    found = read(config, work)
    if as_json:
        print_json(asdict(found))
        return
    _print(found)


def _print(found: Figures) -> None:
    out = console()
    table = Table("stream", "channel", "readings", "missing", "min", "mean", "max", "from", "to")
    for stream in found.streams:
        for channel in stream.channels:
            name = f"{channel.channel} [{channel.unit}]" if channel.unit else channel.channel
            figures = (channel.minimum, channel.mean, channel.maximum)
            table.add_row(
                escape(stream.stream),
                escape(name),
                f"{channel.count:,}",
                f"{channel.missing:,}",
                *("—" if figure is None else f"{figure:g}" for figure in figures),
                iso(stream.first_s),
                iso(stream.last_s),
            )
    out.print(table if found.streams else "No readings in this span.")
    for gap in found.gaps:
        out.print(gap_line(gap))
    if found.coverage is not None:
        some = "" if found.exact else ", and some that nobody counted"
        out.print(
            f"Of all streams in this span: {found.stored:,} readings are stored, {found.lost:,} were "
            f"given up{some}: {found.coverage:.2%} are here."
        )
    doubtful = sum(stream.untrusted for stream in found.streams)
    repaired = sum(stream.repaired for stream in found.streams)
    if doubtful or repaired:
        out.print(f"Times: {repaired:,} repaired, {doubtful:,} in doubt.")
