"""The configuration: read once, typed, frozen, explained, and handed down in slices.

Sources, strongest first: `EDGE_AGENT_…` variables (`__` for nesting), the TOML file. This module is
the only one of the device that reads the environment or a configuration file.
"""

from __future__ import annotations

import os
import tomllib
from pathlib import Path
from typing import Annotated, Any, TypeVar

from pydantic import Field, ValidationError, model_validator
from pydantic_settings import BaseSettings, PydanticBaseSettingsSource, SettingsConfigDict

from contract.config_errors import describe, take_private_keys, unknown_variables
from edge_agent.errors import ConfigurationError
from edge_agent.settings.streams import ModelSettings, StreamSettings
from edge_agent.settings.tables import (
    BrokerSettings,
    DeviceSettings,
    HttpSettings,
    HubSettings,
    LimitSettings,
    OutboxSettings,
    OutputSettings,
    RoutingSettings,
    Table,
)

ENV_PREFIX = "EDGE_AGENT_"
DEFAULT_FILE = Path("/etc/skerry/edge-agent.toml")

TableT = TypeVar("TableT", bound=Table)


class Settings(BaseSettings):
    """The whole configuration of the agent."""

    model_config = SettingsConfigDict(
        extra="forbid", frozen=True, env_prefix=ENV_PREFIX, env_nested_delimiter="__"
    )

    device: DeviceSettings
    broker: BrokerSettings | Annotated[list[BrokerSettings], Field(min_length=1, max_length=16)] = (
        BrokerSettings()
    )
    hub: HubSettings = HubSettings()
    stream: list[StreamSettings] = Field(min_length=1, max_length=4096)
    model: list[ModelSettings] = Field(default=[], max_length=256)
    routing: RoutingSettings = RoutingSettings()
    outbox: OutboxSettings = OutboxSettings()
    http: HttpSettings = HttpSettings()
    output: OutputSettings = OutputSettings()
    limits: LimitSettings = LimitSettings()

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """The environment overrules the file (which comes in as init values)."""
        return env_settings, init_settings

    @model_validator(mode="after")
    def _unique_names(self) -> Settings:
        seen: set[str] = set()
        for stream in self.stream:
            if stream.name in seen:
                raise ValueError(f"two streams are named {stream.name!r}; names must differ")
            seen.add(stream.name)
        return self

    @property
    def brokers(self) -> tuple[BrokerSettings, ...]:
        """The brokers, at least one."""
        return (self.broker,) if isinstance(self.broker, BrokerSettings) else tuple(self.broker)

    @property
    def prefix(self) -> str:
        """The prefix of the topics that are published, with its final slash."""
        prefix = self.output.prefix or f"skerry/{self.device.name}/"
        return prefix if prefix.endswith("/") else prefix + "/"

    @property
    def data_dir(self) -> Path:
        """Where the agent keeps what must survive."""
        return self.device.data_dir


def load_settings(path: Path, *, base: Path | None = None) -> Settings:
    """The configuration in `path`, overruled by the environment.

    Raises ConfigurationError with every mistake: the key, where it is, and the valid values.
    Relative paths are relative to the file's folder, or to `base` where the file is a copy.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigurationError(
            f"cannot read the configuration {path}: {error}. Create it, or name another with --config."
        ) from error
    try:
        tables: dict[str, Any] = tomllib.loads(text)
    except (ValueError, RecursionError) as error:  # 5,000 digits are a plain ValueError
        raise ConfigurationError(f"{path} is not valid TOML: {error}") from error
    mistakes = unknown_variables(Settings, ENV_PREFIX, os.environ)
    mistakes += take_private_keys(tables, path)
    settings = None
    try:
        settings = Settings(**tables)
    except ValidationError as error:
        mistakes += describe(error, Settings, text, path, prefix=ENV_PREFIX, names=os.environ)
    except ValueError as error:
        mistakes.append(f"environment {ENV_PREFIX}…: {error}")
    if mistakes or settings is None:
        raise ConfigurationError("\n".join(mistakes))
    return _resolved(settings, base or path.resolve().parent)


def _resolved(settings: Settings, base: Path) -> Settings:
    """The same, with every relative path taken from the folder of the configuration."""

    def resolve(table: TableT) -> TableT:
        paths = {name: base / value for name, value in table if isinstance(value, Path)}
        return table.model_copy(update=paths)

    return settings.model_copy(
        update={
            "device": resolve(settings.device),
            "broker": [resolve(broker) for broker in settings.brokers],
            "hub": resolve(settings.hub),
            "model": [resolve(model) for model in settings.model],
        }
    )
