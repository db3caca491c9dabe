"""`cloud-hub device list|show`: what the hub knows of its devices."""

from __future__ import annotations

from typing import Annotated, Any

import typer
from rich.markup import escape
from rich.table import Table

from cloud_hub.cli.options import Config, Json, console, iso, print_json
from cloud_hub.cli.reading import read, shown_device
from cloud_hub.store.fleet_queries import list_devices

device_app = typer.Typer(help="Devices that the hub has heard of.", no_args_is_help=True)


@device_app.command("list")
def list_command(config: Config = None, *, as_json: Json = False) -> None:
    """Lists every device: last seen, readings, events and revisions."""
    found = read(config, list_devices)
    if as_json:
        print_json([_with_times(each) for each in found])
        return
    table = Table("device", "last seen", "readings", "events", "revisions", "dead letters")
    for each in found:
        counts = (each["readings"], each["events"], each["revisions"], each["dead_letters"])
        table.add_row(
            escape(each["device"]), iso(each["last_seen_s"]), *(f"{count:,}" for count in counts)
        )
    console().print(table if found else "No device has been heard of yet.")


@device_app.command("show")
def show_command(
    name: Annotated[str, typer.Argument(help="Name of the device.")],
    config: Config = None,
    *,
    as_json: Json = False,
) -> None:
    """Shows one device: streams, lanes with what is missing, events, gaps and dead letters."""
    found = _with_times(read(config, lambda connection: shown_device(connection, name)))
    if as_json:
        print_json(found)
        return
    _print_device(found)


def _print_device(found: dict[str, Any]) -> None:
    out = console()
    state = found["state"] or {}
    out.print(
        f"[bold]{escape(found['device'])}[/bold]  agent {escape(str(state.get('agent', 'unknown')))}"
    )
    out.print(f"first seen {found['first_seen']}, last seen {found['last_seen']}")
    streams = Table("stream", "readings", "from", "to", title="Streams")
    for each in found["streams"]:
        streams.add_row(
            escape(each["stream"]), f"{each['readings']:,}", iso(each["from_s"]), iso(each["to_s"])
        )
    lanes = Table("lane", "epoch", "applied", "missing", title="Lanes")
    for each in found["lanes"]:
        missing = ", ".join(f"{first}–{last}" for first, last in each["missing"]) or "—"
        lanes.add_row(each["lane"], escape(each["epoch"]), f"{each['applied']:,}", missing)
    out.print(streams, lanes)
    gaps, times = found["gaps"], found["times"]
    lost = f"{gaps['readings']:,} readings in {gaps['records']:,} records"
    out.print(f"gaps: {lost}{'' if gaps['exact'] else ', some of them not counted'}")
    out.print(
        f"times under a clock that was not sure: {times['repaired']:,} repaired, "
        f"{times['found_right']:,} found right, {times['in_doubt']:,} in doubt"
    )
    if times["boots_in_doubt"]:
        out.print(
            f"  no trusted stamp has come of {len(times['boots_in_doubt'])} boots: their times are "
            "repaired when one comes, and another boot's cannot tell them"
        )
    for title in ("events", "escalations", "revised", "dead_letters"):
        parts = ", ".join(f"{name} {count:,}" for name, count in found[title].items()) or "none"
        out.print(f"{title.replace('_', ' ')}: {escape(parts)}")


def _with_times(record: dict[str, Any]) -> dict[str, Any]:
    """The record with its `…_s` times also as ISO 8601."""
    times = {
        name.removesuffix("_s"): iso(value)
        for name, value in record.items()
        if name.endswith("_seen_s")
    }
    return {**record, **times}
