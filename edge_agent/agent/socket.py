"""Where the running agent listens for the command line."""

from __future__ import annotations

from pathlib import Path

from edge_agent.settings import Settings


def socket_path(settings: Settings) -> Path:
    """The Unix socket in the agent's data folder."""
    return settings.data_dir / "agent.sock"
