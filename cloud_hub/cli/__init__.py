"""The command line `cloud-hub`: errors for people, JSON for programs, exit codes 0, 1 and 2."""

from __future__ import annotations

import sys

import typer
from rich.console import Console
from rich.markup import escape

from cloud_hub.cli.dead_letters import dead_letter_app
from cloud_hub.cli.device import device_app
from cloud_hub.cli.infer import infer
from cloud_hub.cli.serve import serve
from cloud_hub.cli.telemetry import telemetry_app
from cloud_hub.errors import HubError

app = typer.Typer(
    name="cloud-hub",
    help="The hub: answers hard windows in time, keeps what devices send.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
app.command()(serve)
app.command()(infer)
app.add_typer(device_app, name="device")
app.add_typer(telemetry_app, name="telemetry")
app.add_typer(dead_letter_app, name="deadletters")


def main() -> None:
    """Runs the command line; ends the process with 0 when all is well, 1 or 2 when not."""
    try:
        app()
    except HubError as error:
        _fail(error)
    except BaseExceptionGroup as group:
        known, unknown = group.split(HubError)
        if unknown is not None or known is None:
            raise
        _fail(_first(known))
    except KeyboardInterrupt:
        sys.exit(130)


def _first(group: BaseExceptionGroup[HubError]) -> HubError:
    first = group.exceptions[0]
    return _first(first) if isinstance(first, BaseExceptionGroup) else first


def _fail(error: HubError) -> None:
    Console(stderr=True, soft_wrap=True).print(f"[red]error:[/red] {escape(str(error))}")
    sys.exit(error.exit_code)
