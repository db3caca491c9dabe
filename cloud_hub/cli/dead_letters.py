"""`cloud-hub deadletters list`: messages and rows that could not be used, and why."""

from __future__ import annotations

from typing import Annotated

import typer
from rich.markup import escape
from rich.table import Table

from cloud_hub.cli.options import Config, Json, console, iso, print_json
from cloud_hub.cli.reading import read
from cloud_hub.store.dead_letter_queries import list_dead_letters

MOST = 10_000

dead_letter_app = typer.Typer(
    help="Messages and rows that could not be used.", no_args_is_help=True
)


@dead_letter_app.callback()
def _dead_letters() -> None:
    """Messages and rows that could not be used."""


@dead_letter_app.command("list")
def list_command(
    device: Annotated[str | None, typer.Option(help="Only those of this device.")] = None,
    limit: Annotated[int, typer.Option(min=1, max=MOST, help="The newest so many.")] = 100,
    config: Config = None,
    *,
    as_json: Json = False,
) -> None:
    """Lists them, newest first: from whom, which rows, why, and with --json how they begin (hex)."""
    found = read(config, lambda c: list_dead_letters(c, device=device, limit=limit))
    if as_json:
        print_json([{**each, "received": iso(each["received_s"])} for each in found])
        return
    table = Table("received", "device", "lane", "rows", "bytes", "reason")
    for each in found:
        rows = "—" if each["first"] is None else f"{each['first']}–{each['last']}"
        table.add_row(
            iso(each["received_s"]),
            escape(each["device"] or "?"),
            escape(each["lane"]),
            rows,
            f"{each['size']:,}",
            escape(each["reason"]),
        )
    console().print(table if found else "Nothing was set aside.")
