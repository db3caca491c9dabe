"""KEEP=1: everything runs on, and the user is told how to look at it and how to stop it."""

from __future__ import annotations

import asyncio
import os
import sys
from contextlib import AsyncExitStack

from deploy.demo.configuration import BOILERS, DEVICES
from deploy.demo.sensors import Load, endless_boilers
from deploy.demo.site import Site

_CHECK_S = 1.0


async def keep_running(site: Site, load: Load, stack: AsyncExitStack) -> None:
    """Lets the made-up sensors send on; returns never, ends when it is cancelled (Ctrl-C)."""
    sensor = endless_boilers(site.folder, load)
    stack.push_async_callback(sensor.stop)
    await sensor.start(f"mqtt://{site.field.host}:{site.field.mqtt_port}")
    await asyncio.to_thread(print, "\n".join(advice(site)), file=sys.stdout, flush=True)
    while True:
        site.check()
        sensor.check()
        await asyncio.sleep(_CHECK_S)


def advice(site: Site) -> list[str]:
    """Commands for another terminal, and how to stop."""
    edge, hub = ".venv/bin/edge-agent", ".venv/bin/cloud-hub"
    config = site.hub_config
    return [
        "",
        "Everything runs on; the made-up boilers keep sending. In another terminal:",
        *(f"  {edge} status --config {site.agent_config(device)}" for device in DEVICES),
        f"  {edge} explain last --config {site.agent_config(BOILERS)}",
        f"  {hub} device list --config {config}",
        f"  {hub} device show {BOILERS.name} --config {config}",
        f"  {hub} telemetry query --device {BOILERS.name} --stream boiler/1 --config {config}",
        f"Field broker: mqtt://{site.field.host}:{site.field.mqtt_port} (verdicts: skerry/+/verdict/#)",
        f"Hub's NATS:   {site.hub_server.url}   monitoring: {site.hub_server.monitor_url}",
        f"Logs:         {site.folder}/*.log",
        f"Stop it all: Ctrl-C here, or kill {os.getpid()}",
    ]
