"""Begins an outbox anew where its files cannot even be read: they are set aside, nothing is deleted."""

from __future__ import annotations

import secrets
import time
from pathlib import Path

from edge_agent.outbox.database import set_aside
from edge_agent.outbox.spool import SPOOL_FILE
from edge_agent.outbox.statefile import STATE_FILE


def set_all_aside(folder: Path, *, now_s: float) -> tuple[str, ...]:
    """Renames both files and their logs; returns the new names. Raises StoreError.

    What they held is lost to the hub until somebody reads the files; the new outbox has a new epoch.
    """
    suffix = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime(now_s)) + secrets.token_hex(2)
    return tuple(
        set_aside(folder / name, suffix=suffix).name
        for name in (SPOOL_FILE, STATE_FILE)
        if (folder / name).exists()
    )
