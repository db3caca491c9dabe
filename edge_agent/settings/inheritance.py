"""What a process that we start inherits of our environment."""

from __future__ import annotations

import os

_FOREIGN = ("EDGE_AGENT_", "CLOUD_HUB_", "NOTIFY_SOCKET", "WATCHDOG_", "STATE_DIRECTORY")


def environment_without_service() -> dict[str, str]:
    """Ours without what configures a real agent or hub, or speaks to the service manager for it."""
    return {name: value for name, value in os.environ.items() if not name.startswith(_FOREIGN)}
