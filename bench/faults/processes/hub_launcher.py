"""`cloud-hub`, but it kills itself instead of sending its n-th acknowledgement: after the commit.

`python -m bench.faults.processes.hub_launcher serve --config FILE`; n stands in the file that
DRILL_KILL_FILE names, and a file that is missing or empty means never. The product has no hook for this: the
launcher replaces the one function that settles messages.
"""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Any

from cloud_hub.bus import puller
from cloud_hub.cli import main

KILL_FILE = "DRILL_KILL_FILE"


def arm(path: Path) -> None:
    """From now on the n-th acknowledgement of this process ends it by SIGKILL."""
    text = path.read_text(encoding="ascii").strip() if path.exists() else ""
    left = int(text) if text else 0
    if left < 1:
        return
    settle = puller._settle  # the seam between commit and acknowledgement

    async def settle_or_die(client: Any, reply: str, word: bytes) -> None:
        nonlocal left
        if word == puller.ACK:
            left -= 1
            if left == 0:
                os.kill(os.getpid(), signal.SIGKILL)
        await settle(client, reply, word)

    puller._settle = settle_or_die


if __name__ == "__main__":
    arm(Path(os.environ[KILL_FILE]))
    main()
