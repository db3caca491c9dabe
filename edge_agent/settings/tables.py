"""The tables of the configuration but for streams: typed, frozen, each key explained."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, SecretStr

from contract.subjects import NAME_PATTERN

Name = Annotated[str, Field(pattern=f"^{NAME_PATTERN}$")]
NatsUrl = Annotated[str, Field(pattern=r"^(nats|tls|ws|wss)://[^\s]+$")]


class Table(BaseModel):
    """A table that knows all its keys and never changes."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


class DeviceSettings(Table):
    """`[device]`: who this device is and where it keeps its data."""

    name: Name = Field(description="The device's name, also its token in NATS subjects.")
    data_dir: Path = Field(
        default=Path("/var/lib/skerry"), description="Folder of the outbox and the agent's state."
    )
    log_level: Literal["debug", "info", "warning", "error"] = Field(
        default="info", description="Least severity that is logged."
    )


class BrokerSettings(Table):
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
    durability: Literal["disk", "memory"] = Field(
        default="disk",
        description="memory: readings that came at QoS 0 may wait up to a second in memory before "
        "they are written, which spares flash; QoS 1, events and alarms never do.",
    )
    keepalive_s: int = Field(default=15, ge=5, le=600, description="Seconds between pings.")
    max_batch_messages: int = Field(
        default=1024, ge=1, le=16384, description="Most messages taken up at once."
    )


class HubSettings(Table):
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


class RoutingSettings(Table):
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


class Budget(Table):
    """What one class of rows may use of the outbox."""

    share: float = Field(default=1.0, gt=0, le=1, description="Share of `outbox.max_bytes`.")
    max_age_s: float | None = Field(default=None, ge=60, description="Rows older than this go.")


class RawBudget(Budget):
    """`[outbox.budgets.raw]`: what raw readings may use; they are thinned before they are dropped."""

    share: float = Field(default=0.80, gt=0, le=1, description="Share of `outbox.max_bytes`.")
    max_age_s: float | None = Field(
        default=30 * 86400, ge=60, description="Raw readings older than this are shed."
    )


class RollupBudget(Budget):
    """`[outbox.budgets.rollup]`: what rollups may use."""

    share: float = Field(default=0.30, gt=0, le=1, description="Share of `outbox.max_bytes`.")
    max_age_s: float | None = Field(
        default=None, ge=60, description="Rollups older than this are shed; absent: any age."
    )


class EscalationBudget(Budget):
    """`[outbox.budgets.escalation]`: what windows that wait for the hub may use."""

    share: float = Field(default=0.30, gt=0, le=1, description="Share of `outbox.max_bytes`.")
    max_age_s: float | None = Field(
        default=None, ge=60, description="Windows older than this are shed; absent: any age."
    )


class RevisionBudget(Budget):
    """`[outbox.budgets.revision]`: what revisions made on the device may use."""

    share: float = Field(default=0.20, gt=0, le=1, description="Share of `outbox.max_bytes`.")
    max_age_s: float | None = Field(
        default=None, ge=60, description="Revisions older than this are shed; absent: any age."
    )


class VerdictBudget(Budget):
    """`[outbox.budgets.verdict]`: what verdict events may use."""

    share: float = Field(default=0.50, gt=0, le=1, description="Share of `outbox.max_bytes`.")
    max_age_s: float | None = Field(
        default=None, ge=60, description="Verdict events older than this are shed; absent: any age."
    )


class AlarmBudget(Budget):
    """`[outbox.budgets.alarm]`: what alarms may use."""

    share: float = Field(default=0.80, gt=0, le=1, description="Share of `outbox.max_bytes`.")
    max_age_s: float | None = Field(
        default=None, ge=60, description="Alarms older than this are shed; absent: any age."
    )


class BudgetSettings(Table):
    """`[outbox.budgets]`: bounds of each class; shares overlap, what one leaves another may use."""

    raw: RawBudget = Field(default=RawBudget(), description="Raw readings.")
    rollup: RollupBudget = Field(default=RollupBudget(), description="Rollups.")
    escalation: EscalationBudget = Field(
        default=EscalationBudget(), description="Windows that wait for the hub."
    )
    revision: RevisionBudget = Field(
        default=RevisionBudget(), description="Revisions made on the device."
    )
    verdict: VerdictBudget = Field(default=VerdictBudget(), description="Verdict events.")
    alarm: AlarmBudget = Field(default=AlarmBudget(), description="Alarms.")

    def of(self, kind: str) -> Budget:
        """The budget of a class, by its name."""
        budget = getattr(self, kind)
        assert isinstance(budget, Budget)
        return budget


class OutboxSettings(Table):
    """`[outbox]`: the durable queue towards the hub."""

    max_bytes: int = Field(
        default=512 * 1024 * 1024,
        ge=1024 * 1024,
        description="Most bytes on the disk; then rows are shed.",
    )
    rollup_interval_s: float = Field(
        default=60, ge=1, le=86400, description="Seconds a rollup covers."
    )
    max_queue_commits: int = Field(
        default=1024,
        ge=1,
        le=65536,
        description="Commits that may wait for a slow disk before reading stops.",
    )
    max_memory_bytes: int = Field(
        default=16 * 1024 * 1024,
        ge=1024 * 1024,
        le=1024 * 1024 * 1024,
        description="Most bytes kept in memory while the disk cannot be written; then rows are shed.",
    )
    max_unacknowledged: int = Field(
        default=16384,
        ge=16,
        le=65535,
        description="Messages not acknowledged while the disk cannot be written; "
        "less than the broker leaves in flight.",
    )
    budgets: BudgetSettings = Field(
        default=BudgetSettings(), description="What each class may use."
    )


class HttpSettings(Table):
    """`[http]`: /livez, /readyz and /metrics."""

    enabled: bool = Field(default=True, description="Whether to serve them.")
    host: str = Field(default="127.0.0.1", description="Address to listen on.")
    port: int = Field(
        default=9464, ge=0, le=65535, description="Port to listen on; 0: any free one."
    )


class OutputSettings(Table):
    """`[output]`: what is published on MQTT."""

    prefix: str | None = Field(
        default=None, description="Topic prefix; default skerry/<device name>/."
    )
    verdict_qos: Literal[0, 1] = Field(default=0, description="QoS of verdicts.")
    verdicts: Literal["all", "changes"] = Field(
        default="all", description="Publish every verdict, or only those with a new label."
    )


class LimitSettings(Table):
    """`[limits]`: what the outside may make the agent do."""

    max_streams: int = Field(
        default=10000, ge=1, description="Most streams; further topics are refused."
    )
    max_payload_bytes: int = Field(
        default=65536, ge=64, le=4194304, description="Larger payloads are quarantined unread."
    )
    max_depth: int = Field(default=16, ge=1, le=64, description="Deeper JSON is quarantined.")
