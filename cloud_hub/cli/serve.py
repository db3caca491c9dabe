"""`cloud-hub serve`: the service."""

from __future__ import annotations

import asyncio
from typing import Annotated

import typer

from cloud_hub.cli.options import Config


def serve(
    config: Config = None,
    roles: Annotated[
        str, typer.Option(help="Comma-separated: inference, ingest, fleet.")
    ] = "inference,ingest,fleet",
) -> None:
    """Serves until SIGTERM: answers devices, stores what they send. Logs are JSON lines on stderr."""
    # Imported here: onnxruntime and NATS cost half a second that the other commands need not pay.
    from cloud_hub.hub.crew import Role
    from cloud_hub.hub.life import Hub
    from cloud_hub.log import configure_logging
    from cloud_hub.settings import load_settings

    names = [name.strip() for name in roles.split(",") if name.strip()]
    known = [role.value for role in Role]
    if not names or any(name not in known for name in names):
        raise typer.BadParameter(f"{roles!r}; valid: {', '.join(known)}", param_hint="--roles")
    settings = load_settings(config)
    configure_logging(level=settings.log.level)

    async def run() -> None:
        await Hub(settings, roles=frozenset(Role(name) for name in names)).run()

    asyncio.run(run())
