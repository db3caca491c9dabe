"""The configuration of the agent: what may stand in it, and how it is read."""

from edge_agent.settings.hints import data_dir_hints, note_path
from edge_agent.settings.loading import DEFAULT_FILE, ENV_PREFIX, Settings, load_settings
from edge_agent.settings.service import ServiceEnvironment, read_service_environment
from edge_agent.settings.streams import ChannelSettings, ModelSettings, StreamSettings
from edge_agent.settings.tables import (
    BrokerSettings,
    BudgetSettings,
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
    "BudgetSettings",
    "ChannelSettings",
    "DeviceSettings",
    "HttpSettings",
    "HubSettings",
    "LimitSettings",
    "ModelSettings",
    "OutboxSettings",
    "OutputSettings",
    "RoutingSettings",
    "ServiceEnvironment",
    "Settings",
    "StreamSettings",
    "data_dir_hints",
    "load_settings",
    "note_path",
    "read_service_environment",
]
