"""Everything a connection to one broker needs to know, read once and frozen."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal
from urllib.parse import urlsplit

from edge_agent.errors import ConfigurationError
from edge_agent.settings import BrokerSettings

_PORTS = {"mqtt": 1883, "mqtts": 8883}


@dataclass(frozen=True, slots=True)
class BrokerOptions:
    """One broker, how to greet it, and the bounds of what is kept for it in memory."""

    host: str
    port: int
    client_id: str
    tls: bool = False
    username: str | None = None
    password: str | None = field(default=None, repr=False)
    tls_ca: Path | None = None
    tls_cert: Path | None = None
    tls_key: Path | None = None
    protocol: Literal["3.1.1", "5"] = "3.1.1"
    clean_session: bool = False
    keepalive_s: int = 15
    connect_timeout_s: float = 5.0
    subscribe_timeout_s: float = 10.0
    backoff_cap_s: float = 20.0
    session_expiry_s: int = 7 * 86400
    """MQTT 5 only: how long the broker keeps what waits for us."""
    max_batch_messages: int = 1024
    max_buffered_messages: int = 8192
    max_buffered_bytes: int = 32 * 1024 * 1024
    max_packet_bytes: int = 16 * 1024 * 1024
    """A longer message is cut to this length while it is read; it is over every limit anyway."""
    max_inflight_messages: int = 20
    max_queued_messages: int = 1000
    """QoS 1 messages of ours that may wait for the broker; more are dropped and counted."""
    max_unsent_packets: int = 4096
    """Packets that may wait for the socket; above it QoS 0 messages are dropped and counted."""

    @property
    def name(self) -> str:
        """Names the session: the scope of packet ids."""
        return f"{self.client_id}@{self.host}:{self.port}"

    @property
    def url(self) -> str:
        """The broker's address, without credentials."""
        return f"mqtt{'s' if self.tls else ''}://{self.host}:{self.port}"


def parse_broker_url(url: str) -> tuple[str, int, bool]:
    """Host, port and whether to use TLS; raises ConfigurationError that says what is wrong."""
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError as error:
        raise ConfigurationError(f"broker URL {url!r}: {error}; write mqtt://HOST:PORT") from error
    if parts.scheme not in _PORTS or not parts.hostname:
        raise ConfigurationError(
            f"broker URL {url!r} is not one: write mqtt://HOST:PORT, or mqtts:// for TLS"
        )
    return parts.hostname, port or _PORTS[parts.scheme], parts.scheme == "mqtts"


def broker_options(settings: BrokerSettings, *, device: str) -> BrokerOptions:
    """The options for one `[broker]` table; the client id is `skerry-<device>` unless it is set."""
    host, port, tls = parse_broker_url(settings.url)
    password = settings.password
    return BrokerOptions(
        host=host,
        port=port,
        tls=tls,
        client_id=settings.client_id or f"skerry-{device}",
        username=settings.username,
        password=None if password is None else password.get_secret_value(),
        tls_ca=settings.tls_ca,
        tls_cert=settings.tls_cert,
        tls_key=settings.tls_key,
        protocol=settings.protocol,
        keepalive_s=settings.keepalive_s,
        max_batch_messages=settings.max_batch_messages,
        max_buffered_messages=2 * settings.max_batch_messages,
    )
