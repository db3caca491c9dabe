"""The hub's configuration: `/etc/skerry/cloud-hub.toml`, overruled by `CLOUD_HUB_…`; read once, frozen.

Only this module reads the environment and files of configuration. Every mistake is reported at once, each
with its key, its place and what would be valid.
"""

from __future__ import annotations

import os
import re
import tomllib
from pathlib import Path
from typing import Annotated, Any, Final, Literal

from pydantic import BaseModel, ConfigDict, Field, SecretStr, ValidationError, model_validator
from pydantic_settings import BaseSettings, PydanticBaseSettingsSource, SettingsConfigDict

from cloud_hub.errors import ConfigurationError
from contract.config_errors import describe, take_private_keys, unknown_variables

DEFAULT_CONFIG: Final = Path("/etc/skerry/cloud-hub.toml")
ENV_PREFIX: Final = "CLOUD_HUB_"

_CREDENTIALS: Final = re.compile(r"//[^/@]*@")

NatsUrl = Annotated[str, Field(pattern=r"^(nats|tls|ws|wss)://[^\s]+$")]


class _Table(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class TlsSettings(_Table):
    """`[nats.tls]`: certificates for the connection to NATS."""

    ca: Path | None = Field(
        default=None, description="Authorities to trust; default: the system's."
    )
    certificate: Path | None = Field(default=None, description="The hub's own certificate.")
    key: Path | None = Field(default=None, description="The key of that certificate.")


class NatsSettings(_Table):
    """`[nats]`: the server that devices publish to."""

    url: NatsUrl | list[NatsUrl] = Field(
        default="nats://127.0.0.1:4222", description="Where NATS listens; several form a cluster."
    )
    monitor_url: Annotated[str, Field(pattern=r"^https?://[^\s]+$")] | None = Field(
        default="http://127.0.0.1:8222",
        description="NATS monitoring; tells whether writes are synced.",
    )
    allow_unsafe_sync: bool = Field(
        default=False,
        description="Serve although the server may lose acknowledged messages in a power cut.",
    )
    credentials: Path | None = Field(
        default=None, description="Credentials file (JWT and nkey seed)."
    )
    user: str | None = Field(default=None, description="User name.")
    password: SecretStr | None = Field(default=None, description="Password of that user.")
    tls: TlsSettings | None = Field(
        default=None, description="Certificates; needed for tls:// with an own CA."
    )
    replicas: int = Field(default=1, ge=1, le=5, description="Copies of each stream in a cluster.")
    max_stream_bytes: int = Field(
        default=1024**3,
        ge=1024**2,
        description="Size of each stream; a full one makes devices wait.",
    )
    reconnect_jitter_s: float = Field(
        default=1.0,
        ge=0,
        le=60,
        description="The first reconnect comes after a random time up to this.",
    )

    @property
    def urls(self) -> list[str]:
        """The servers, at least one."""
        return [self.url] if isinstance(self.url, str) else list(self.url)

    @property
    def shown_urls(self) -> str:
        """The servers for logs and errors, without what may be a password."""
        return ", ".join(_CREDENTIALS.sub("//", url) for url in self.urls)


class StoreSettings(_Table):
    """`[store]`: the database."""

    data_dir: Path = Field(
        default=Path("/var/lib/skerry-hub"), description="Where the default database lies."
    )
    url: str | None = Field(
        default=None,
        pattern=r"^(sqlite\+aiosqlite|postgresql\+asyncpg)://",
        description="SQLAlchemy URL; default: hub.db in `data_dir`.",
    )

    @property
    def resolved_url(self) -> str:
        """The URL of the database that is used."""
        return self.url or f"sqlite+aiosqlite:///{self.data_dir / 'hub.db'}"


class ModelsSettings(_Table):
    """`[models]`: what the hub serves."""

    packages: list[Path] = Field(default=[], description="Folders with a manifest.json.")


class InferenceSettings(_Table):
    """`[inference]`: limits in rows and bytes."""

    max_batch: int = Field(default=64, ge=1, le=65536, description="Rows that run together.")
    max_queue_rows: int = Field(
        default=4096, ge=1, description="Rows that may wait, for each model."
    )
    max_queue_bytes: int = Field(
        default=64 * 1024**2, ge=1024, description="Bytes that may wait, for each model."
    )
    rate_per_device: float = Field(
        default=500.0, gt=0, description="Rows a second that one device may ask."
    )
    burst_per_device: float = Field(
        default=1000.0, ge=1, description="Rows that it may ask at once."
    )
    default_budget_ms: float = Field(
        default=1000.0, gt=0, description="Time for a request that names none."
    )
    max_budget_ms: float = Field(
        default=60000.0, gt=0, description="More time than this is not granted."
    )
    threads: int = Field(
        default=1, ge=0, le=1024, description="CPU threads of one model run; 0: all cores."
    )
    provider: Literal["auto", "cpu", "cuda", "tensorrt"] = Field(
        default="auto", description="Where models run; auto: the best that is there."
    )
    remembered_answers: int = Field(
        default=4096, ge=1, description="Answers kept, so that a repeated request is not run twice."
    )


class IngestSettings(_Table):
    """`[ingest]`: how data comes into the database."""

    max_messages: int = Field(
        default=64, ge=1, le=1000, description="Messages in one commit, at most."
    )
    ack_wait_s: float = Field(
        default=10.0, ge=1, le=600, description="After this the server sends again."
    )
    max_dead_letters: int = Field(
        default=10000, ge=0, description="Bad messages and rows that are kept; the oldest go first."
    )


class HttpSettings(_Table):
    """`[http]`: /livez, /readyz and /metrics."""

    enabled: bool = Field(default=True, description="Whether to serve them.")
    host: str = Field(default="127.0.0.1", description="Address to listen on.")
    port: int = Field(
        default=9465, ge=0, le=65535, description="Port to listen on; 0: any free one."
    )


class LogSettings(_Table):
    """`[log]`: what is written to stderr."""

    level: Literal["debug", "info", "warning", "error"] = Field(
        default="info", description="Least level."
    )


class Settings(BaseSettings):
    """The whole configuration of the hub."""

    model_config = SettingsConfigDict(
        extra="forbid", frozen=True, env_prefix=ENV_PREFIX, env_nested_delimiter="__"
    )

    nats: NatsSettings = NatsSettings()
    store: StoreSettings = StoreSettings()
    models: ModelsSettings = ModelsSettings()
    inference: InferenceSettings = InferenceSettings()
    ingest: IngestSettings = IngestSettings()
    http: HttpSettings = HttpSettings()
    log: LogSettings = LogSettings()

    @model_validator(mode="after")
    def _sync_can_be_checked(self) -> Settings:
        if self.nats.monitor_url is None and not self.nats.allow_unsafe_sync:
            raise ValueError(
                "[nats] monitor_url is empty, so nobody can tell whether the server syncs its writes; "
                "name it, or set allow_unsafe_sync = true"
            )
        return self

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


def load_settings(path: Path | None = None) -> Settings:
    """The configuration in `path`, overruled by the environment.

    Without a path, `/etc/skerry/cloud-hub.toml` is read if it is there. Relative paths in the file are
    relative to the file. Raises ConfigurationError with every mistake.
    """
    place = path or DEFAULT_CONFIG
    text = "" if path is None and not place.exists() else _read(place)
    tables = _parse(text, place)
    mistakes = unknown_variables(Settings, ENV_PREFIX, os.environ)
    mistakes += take_private_keys(tables, place)
    settings = None
    try:
        settings = Settings(**tables)
    except ValidationError as error:
        mistakes += describe(error, Settings, text, place, prefix=ENV_PREFIX, names=os.environ)
    except ValueError as error:
        mistakes.append(f"environment {ENV_PREFIX}…: {error}")
    if mistakes or settings is None:
        raise ConfigurationError("\n".join(mistakes))
    return _resolved(settings, place.resolve().parent)


def notify_socket() -> str | None:
    """Where systemd wants to hear that the hub is ready, or None when nobody asked."""
    return os.environ.get("NOTIFY_SOCKET") or None


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigurationError(
            f"cannot read the configuration {path}: {error}. Name another file with --config, or create it."
        ) from error


def _parse(text: str, path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(text)
    except (ValueError, RecursionError) as error:  # 5,000 digits are a plain ValueError
        raise ConfigurationError(f"{path} is not valid TOML: {error}") from error


def _resolved(settings: Settings, base: Path) -> Settings:
    packages = [base / package for package in settings.models.packages]
    models = settings.models.model_copy(update={"packages": packages})
    store = settings.store.model_copy(update={"data_dir": base / settings.store.data_dir})
    return settings.model_copy(update={"models": models, "store": store})
