"""The configuration of the agent: what may stand in it, and how it is read."""

from edge_agent.settings.loading import DEFAULT_FILE, ENV_PREFIX, Settings, load_settings
from edge_agent.settings.streams import ChannelSettings, ModelSettings, StreamSettings
from edge_agent.settings.tables import (
    BrokerSettings,
    DeviceSettings,
    HttpSettings,
    HubSettings,
    LimitSettings,
    OutboxSettings,
    OutputSettings,
    RoutingSettings,
)

__all__ = [
    "DEFAULT_FILE",
    "ENV_PREFIX",
    "BrokerSettings",
    "ChannelSettings",
    "DeviceSettings",
    "HttpSettings",
    "HubSettings",
    "LimitSettings",
    "ModelSettings",
    "OutboxSettings",
    "OutputSettings",
    "RoutingSettings",
    "Settings",
    "StreamSettings",
    "load_settings",
]
