"""Configurations in memory, with as little in them as a test needs."""

from typing import Any

from edge_agent.settings import Settings


def stream(name: str = "pump", topic: str = "site/+", **more: Any) -> dict[str, Any]:
    """One `[[stream]]` table with the channel `flow`, unless channels are given."""
    return {"name": name, "topic": topic, "channels": {"flow": {}}} | more


def settings_of(*streams: dict[str, Any], **tables: Any) -> Settings:
    """A valid configuration with these streams."""
    return Settings(device={"name": "d1"}, stream=list(streams or [stream()]), **tables)
