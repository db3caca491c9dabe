"""A hub that is killed by SIGKILL at its first acknowledgement: after the commit, before the ack."""

import asyncio
import os
import signal
import sys
from pathlib import Path

from nats.aio.client import Client

from cloud_hub.bus import puller
from cloud_hub.hub.life import Hub
from cloud_hub.settings import load_settings


async def _die(client: Client, reply: str, word: bytes) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


async def main() -> None:
    await Hub(load_settings(Path(sys.argv[1]))).run()


if __name__ == "__main__":
    puller._settle = _die
    asyncio.run(main())
