"""Shows the demo while it runs, on standard error: a live table on a terminal, else plain lines."""

from __future__ import annotations

import sys
import time
from dataclasses import dataclass, field
from typing import Final, Protocol, TextIO

from rich.console import Console, Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

_LINE_EVERY_S: Final = 5.0
_RED: Final = "bold red"


@dataclass(slots=True)
class DeviceLine:
    """One device as it says itself."""

    name: str
    readings: int = 0
    verdicts: int = 0
    link: str = "…"
    waiting: int = 0
    """Rows that the hub has not confirmed."""


@dataclass(slots=True)
class Snapshot:
    """What there is to show now."""

    readings: int = 0
    stored: int = 0
    verdicts: int = 0
    by_tier: dict[str, int] = field(default_factory=dict)
    revisions: int = 0
    link_up: bool = True
    hub_up: bool = True
    devices: list[DeviceLine] = field(default_factory=list)

    def summary(self) -> str:
        """One line of it."""
        tiers = ", ".join(f"{tier} {count:,}" for tier, count in sorted(self.by_tier.items()))
        waiting = sum(device.waiting for device in self.devices)
        hub = "up" if self.hub_up else "DOWN"
        link = "up" if self.link_up else "CUT"
        return (
            f"readings {self.readings:,}  verdicts {self.verdicts:,} ({tiers})  "
            f"revisions {self.revisions}  link {link}  hub {hub}  "
            f"waiting rows {waiting:,}  stored {self.stored:,}"
        )


class View(Protocol):
    """Where the demo tells what it does."""

    def act(self, title: str, text: str) -> None:
        """A new act begins."""

    def note(self, text: str) -> None:
        """Something happened."""

    def show(self, snapshot: Snapshot) -> None:
        """How things stand; called several times a second."""

    def close(self) -> None:
        """Nothing more will come."""


def make_view(stream: TextIO | None = None) -> View:
    """A live view on a terminal, plain lines elsewhere."""
    where = sys.stderr if stream is None else stream
    return LiveView(where) if where.isatty() else PlainView(where)


class PlainView:
    """A line for each thing that happens, and one every five seconds."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._began_s = time.monotonic()
        self._line_s = self._began_s

    def act(self, title: str, text: str) -> None:
        """See View."""
        self._say(f"{title}: {text}")

    def note(self, text: str) -> None:
        """See View."""
        self._say(f"  {text}")

    def show(self, snapshot: Snapshot) -> None:
        """See View."""
        if time.monotonic() - self._line_s >= _LINE_EVERY_S:
            self._say("  " + snapshot.summary())

    def close(self) -> None:
        """See View."""

    def _say(self, text: str) -> None:
        self._line_s = time.monotonic()
        print(f"{self._line_s - self._began_s:5.1f} s  {text}", file=self._stream, flush=True)


class LiveView:
    """The acts so far, and under them a table that is drawn anew."""

    def __init__(self, stream: TextIO) -> None:
        self._console = Console(file=stream)
        self._began_s = time.monotonic()
        self._live = Live(console=self._console, auto_refresh=False, transient=True)
        self._live.start()

    def act(self, title: str, text: str) -> None:
        """See View."""
        self._say(Text.assemble((title, "bold cyan"), f"  {text}"))

    def note(self, text: str) -> None:
        """See View."""
        self._say(Text(f"  {text}", style="dim"))

    def show(self, snapshot: Snapshot) -> None:
        """See View."""
        tiers = Table.grid(padding=(0, 2))
        shown = [f"[b]{count:,}[/b] {tier}" for tier, count in sorted(snapshot.by_tier.items())]
        tiers.add_row("verdicts", *shown, f"[b]{snapshot.revisions}[/b] revisions")
        devices = Table("device", "link to the hub", box=None, padding=(0, 2))
        for column in ("readings", "verdicts", "rows waiting for the hub"):
            devices.add_column(column, justify="right")
        for each in snapshot.devices:
            devices.add_row(
                each.name,
                Text(each.link, style="green" if each.link == "online" else _RED),
                f"{each.readings:,}",
                f"{each.verdicts:,}",
                f"{each.waiting:,}",
            )
        hub = Text.assemble(
            "hub ",
            ("running", "green") if snapshot.hub_up else ("killed", _RED),
            "   link ",
            ("up", "green") if snapshot.link_up else ("cut", _RED),
            f"   {snapshot.stored:,} readings stored",
        )
        self._live.update(Group(Text(), devices, tiers, hub), refresh=True)

    def close(self) -> None:
        """See View."""
        self._live.stop()

    def _say(self, text: Text) -> None:
        stamp = Text(f"{time.monotonic() - self._began_s:5.1f} s  ", style="dim")
        self._live.console.print(stamp + text)
