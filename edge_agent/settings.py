"""The configuration: read once, typed, frozen, explained, and handed down in slices.

Sources, strongest first: `EDGE_AGENT_…` variables (`__` for nesting), the TOML file. This module is
the only one of the device that reads the environment or a configuration file.
"""

from __future__ import annotations

import os
import tomllib
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    SecretStr,
    ValidationError,
    field_validator,
    model_validator,
)
from pydantic_settings import BaseSettings, PydanticBaseSettingsSource, SettingsConfigDict

from contract.config_errors import describe, take_private_keys, unknown_variables
from contract.subjects import NAME_PATTERN
from edge_agent.errors import ConfigurationError

ENV_PREFIX = "EDGE_AGENT_"
DEFAULT_FILE = Path("/etc/skerry/edge-agent.toml")

ChannelName = Annotated[str, Field(min_length=1, max_length=64)]
Name = Annotated[str, Field(pattern=f"^{NAME_PATTERN}$")]
NatsUrl = Annotated[str, Field(pattern=r"^(nats|tls|ws|wss)://[^\s]+$")]


class _Table(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


TableT = TypeVar("TableT", bound=_Table)


class DeviceSettings(_Table):
    """`[device]`: who this device is and where it keeps its data."""

    name: Name = Field(description="The device's name, also its token in NATS subjects.")
    data_dir: Path = Field(
        default=Path("/var/lib/skerry"), description="Folder of the outbox and the agent's state."
    )
    log_level: Literal["debug", "info", "warning", "error"] = Field(
        default="info", description="Least severity that is logged."
    )


class BrokerSettings(_Table):
    """`[broker]`, or several `[[broker]]`: the MQTT broker that the sensors publish to."""

    url: str = Field(
        default="mqtt://127.0.0.1:1883",
        pattern=r"^mqtts?://[^\s/]+/?$",
        description="mqtt://HOST:PORT, or mqtts:// for TLS.",
    )
    client_id: str | None = Field(
        default=None, max_length=64, description="Fixed client id; default skerry-<device name>."
    )
    username: str | None = Field(default=None, description="User name at the broker.")
    password: SecretStr | None = Field(default=None, description="Password at the broker.")
    tls_ca: Path | None = Field(
        default=None, description="CA file that the broker's certificate is from."
    )
    tls_cert: Path | None = Field(default=None, description="This device's certificate.")
    tls_key: Path | None = Field(default=None, description="The key of `tls_cert`.")
    protocol: Literal["3.1.1", "5"] = Field(default="3.1.1", description="MQTT version.")
    qos: Literal[0, 1] = Field(
        default=1, description="QoS of the subscriptions; 1 survives a crash, 0 promises nothing."
    )
    keepalive_s: int = Field(default=15, ge=5, le=600, description="Seconds between pings.")
    max_batch_messages: int = Field(
        default=1024, ge=1, le=16384, description="Most messages taken up at once."
    )


class HubSettings(_Table):
    """`[hub]`: the NATS server of the hub; leave it out and the device works alone."""

    url: NatsUrl | list[NatsUrl] | None = Field(
        default=None, description="nats://HOST:PORT, or a list; absent: the device works alone."
    )
    user: str | None = Field(default=None, description="User at the server.")
    password: SecretStr | None = Field(default=None, description="Password at the server.")
    token: SecretStr | None = Field(default=None, description="Token at the server.")
    credentials: Path | None = Field(default=None, description="NATS credentials file.")
    tls_ca: Path | None = Field(
        default=None, description="CA file that the server's certificate is from."
    )
    reconnect_jitter_s: float = Field(
        default=10,
        ge=0,
        le=600,
        description="The first attempt to reconnect waits up to this long.",
    )
    drain_jitter_s: float = Field(
        default=30, ge=0, le=3600, description="Draining after a reconnect waits up to this long."
    )
    drain_bytes_per_s: int = Field(
        default=0, ge=0, description="Most bytes a second sent from the backlog; 0: no limit."
    )
    state_interval_s: float = Field(
        default=300,
        ge=1,
        le=86400,
        description="Seconds between state exchanges when nothing drains.",
    )
    drain_state_interval_s: float = Field(
        default=10, ge=0.2, le=3600, description="Seconds between state exchanges while rows wait."
    )
    probe_interval_s: float = Field(
        default=10, ge=0.5, le=600, description="Seconds between probes of the connection."
    )
    publish_timeout_s: float = Field(
        default=5, ge=0.5, le=120, description="A publish not acknowledged by then is sent again."
    )

    @property
    def urls(self) -> tuple[str, ...]:
        """The servers, most preferred first; empty when the device works alone."""
        if self.url is None:
            return ()
        return (self.url,) if isinstance(self.url, str) else tuple(self.url)


class ChannelSettings(_Table):
    """One channel of a stream: where it stands in the payload, its unit and its limits."""

    path: str | None = Field(
        default=None,
        description="Path in the payload, as a.b or list[0]; default: the channel's name.",
    )
    unit: str = Field(default="", max_length=32, description="Unit of the values.")
    min: float | None = Field(default=None, description="Lower values are impossible: rejected.")
    max: float | None = Field(default=None, description="Higher values are impossible: rejected.")
    alarm_below: float | None = Field(
        default=None, description="Lower values raise an alarm (tier rule)."
    )
    alarm_above: float | None = Field(
        default=None, description="Higher values raise an alarm (tier rule)."
    )

    @model_validator(mode="after")
    def _ordered(self) -> ChannelSettings:
        if self.min is not None and self.max is not None and self.min >= self.max:
            raise ValueError(f"min ({self.min:g}) must be below max ({self.max:g})")
        return self


class StreamSettings(_Table):
    """`[[stream]]`: one source, or with wildcards in `topic` one stream for each topic."""

    name: str = Field(
        pattern=r"^[A-Za-z0-9_.{}\-/]{1,128}$",
        description="Name of the stream; {0}, {1} … stand for the levels of the topic.",
    )
    topic: str = Field(min_length=1, max_length=1024, description="MQTT topic filter.")
    profile: Literal["json"] = Field(default="json", description="Payload convention.")
    time: Literal["checked", "recorded", "arrival"] = Field(
        default="checked",
        description="checked: implausible times are replaced by the arrival time and flagged; "
        "recorded: the payload's time is trusted; arrival: the payload's time is ignored.",
    )
    time_path: str | None = Field(
        default=None, description="Path of the reading's time; absent: common key names are tried."
    )
    channels: dict[ChannelName, ChannelSettings] = Field(
        min_length=1, max_length=256, description="The channels, by name."
    )
    window: int = Field(
        default=0, ge=0, le=65536, description="Readings a window; 0: the model's, or 1."
    )
    hop: int = Field(
        default=0, ge=0, le=65536, description="Readings between windows; 0: the model's, or 1."
    )
    model: Name | None = Field(default=None, description="Model family that scores the windows.")
    deadline_ms: float = Field(
        default=250, ge=5, le=60000, description="Time for a verdict, from arrival."
    )
    escalate: Literal["auto", "never"] = Field(
        default="auto", description="Whether uncertain windows may go to the hub."
    )
    alarm_labels: tuple[str, ...] = Field(
        default=("anomaly", "breach"), description="Labels that raise an alarm."
    )
    rearm_windows: int = Field(
        default=25, ge=1, le=100000, description="Quiet windows that end an alarm's episode."
    )

    @field_validator("topic")
    @classmethod
    def _filter(cls, topic: str) -> str:
        levels = topic.split("/")
        for position, level in enumerate(levels):
            if "#" in level and (level != "#" or position != len(levels) - 1):
                raise ValueError("'#' must be the whole last level of a topic filter")
            if "+" in level and level != "+":
                raise ValueError("'+' must be a whole level of a topic filter")
        if topic.startswith("$share/"):
            raise ValueError("shared subscriptions would split a stream between devices")
        return topic


class ModelSettings(_Table):
    """`[[model]]`: a package that the device starts with."""

    package: Path = Field(description="Folder with the package's manifest.json.")


class RoutingSettings(_Table):
    """`[routing]`: when a window goes to the hub."""

    escalate_below: float = Field(
        default=0.8, ge=0, le=1, description="Answers less confident than this are uncertain."
    )
    max_escalations_per_s: float = Field(
        default=50, ge=0, le=100000, description="Windows a second that may go to the hub."
    )
    late_answer_s: float = Field(
        default=5,
        ge=0,
        le=600,
        description="How long a late answer is waited for; it becomes a revision.",
    )
    bulk_when_offline: bool = Field(
        default=True, description="Queue uncertain windows for the hub while it is away."
    )


class OutboxSettings(_Table):
    """`[outbox]`: the durable queue towards the hub."""

    max_bytes: int = Field(
        default=512 * 1024 * 1024,
        ge=1024 * 1024,
        description="Most bytes on the disk; then rows are shed.",
    )
    raw_max_age_s: float = Field(
        default=30 * 86400, ge=60, description="Raw readings older than this are shed."
    )
    rollup_interval_s: float = Field(
        default=60, ge=1, le=86400, description="Seconds a rollup covers."
    )
    max_queue_commits: int = Field(
        default=256,
        ge=1,
        le=65536,
        description="Commits that may wait for the disk before reading stops.",
    )


class HttpSettings(_Table):
    """`[http]`: /livez, /readyz and /metrics."""

    enabled: bool = Field(default=True, description="Whether to serve them.")
    host: str = Field(default="127.0.0.1", description="Address to listen on.")
    port: int = Field(
        default=9464, ge=0, le=65535, description="Port to listen on; 0: any free one."
    )


class OutputSettings(_Table):
    """`[output]`: what is published on MQTT."""

    prefix: str | None = Field(
        default=None, description="Topic prefix; default skerry/<device name>/."
    )
    verdict_qos: Literal[0, 1] = Field(default=0, description="QoS of verdicts.")
    verdicts: Literal["all", "changes"] = Field(
        default="all", description="Publish every verdict, or only those with a new label."
    )


class LimitSettings(_Table):
    """`[limits]`: what the outside may make the agent do."""

    max_streams: int = Field(
        default=10000, ge=1, description="Most streams; further topics are refused."
    )
    max_payload_bytes: int = Field(
        default=65536, ge=64, le=4194304, description="Larger payloads are quarantined unread."
    )
    max_depth: int = Field(default=16, ge=1, le=64, description="Deeper JSON is quarantined.")


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
    def notify_socket(self) -> str | None:
        """Where systemd listens for readiness, if it does."""
        return os.environ.get("NOTIFY_SOCKET")

    @property
    def data_dir(self) -> Path:
        """Where the agent keeps what must survive."""
        return self.device.data_dir


def load_settings(path: Path) -> Settings:
    """The configuration in `path`, overruled by the environment.

    Raises ConfigurationError with every mistake: the key, where it is, and the valid values.
    Relative paths are relative to the file.
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
    return _resolved(settings, path.resolve().parent)


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
