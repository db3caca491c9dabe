"""Every metric of the hub, in one registry of its own: no globals, so that two hubs can share a process."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

_MS = (0.5, 1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 5000)
_ROWS = (1, 2, 4, 8, 16, 32, 64, 128, 256)


class HubMetrics:
    """The metrics `cloud_hub_*`; labels are closed lists or names of installed models."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self._of_inference(self.registry)
        self._of_ingest(self.registry)
        self._of_link(self.registry)

    def _of_inference(self, registry: CollectorRegistry) -> None:
        self.requests = Counter(
            "cloud_hub_requests",
            "Requests by how they ended.",
            ["model", "status"],
            registry=registry,
        )
        self.queue_ms = Histogram(
            "cloud_hub_queue_ms",
            "Wait of a request for its batch.",
            ["model"],
            buckets=_MS,
            registry=registry,
        )
        self.run_ms = Histogram(
            "cloud_hub_run_ms", "Time a batch ran.", ["model"], buckets=_MS, registry=registry
        )
        self.batch_rows = Histogram(
            "cloud_hub_batch_rows", "Rows in a batch.", ["model"], buckets=_ROWS, registry=registry
        )
        self.backlog_rows = Gauge(
            "cloud_hub_backlog_rows", "Rows that wait.", ["model"], registry=registry
        )
        self.predicted_wait_ms = Gauge(
            "cloud_hub_predicted_wait_ms",
            "How long a new row would wait.",
            ["model"],
            registry=registry,
        )
        self.wasted_rows = Counter(
            "cloud_hub_wasted_rows", "Rows computed for nobody.", ["model"], registry=registry
        )

    def _of_ingest(self, registry: CollectorRegistry) -> None:
        self.ingest_messages = Counter(
            "cloud_hub_ingest_messages",
            "Messages stored and acknowledged.",
            ["lane"],
            registry=registry,
        )
        self.ingest_rows = Counter(
            "cloud_hub_ingest_rows",
            "Rows received, duplicates included.",
            ["lane"],
            registry=registry,
        )
        self.ingest_readings = Counter(
            "cloud_hub_ingest_readings", "Readings stored for the first time.", registry=registry
        )
        self.ingest_duplicates = Counter(
            "cloud_hub_ingest_duplicate_rows",
            "Rows that were stored already.",
            ["lane"],
            registry=registry,
        )
        self.dead_letters = Counter(
            "cloud_hub_dead_letters", "Messages or rows set aside.", ["lane"], registry=registry
        )
        self.commit_ms = Histogram(
            "cloud_hub_ingest_commit_ms",
            "Time of one database commit.",
            buckets=_MS,
            registry=registry,
        )
        self.pending_messages = Gauge(
            "cloud_hub_watermark_lag_messages",
            "Messages not stored yet.",
            ["lane"],
            registry=registry,
        )
        self.times_repaired = Counter(
            "cloud_hub_times_repaired_rows",
            "Rows whose times were corrected after the device's clock had become good.",
            ["table"],
            registry=registry,
        )
        self.escalations = Counter(
            "cloud_hub_escalations",
            "Queued windows by how they ended.",
            ["outcome"],
            registry=registry,
        )
        self.revisions = Counter("cloud_hub_revisions", "Revisions given.", registry=registry)

    def _of_link(self, registry: CollectorRegistry) -> None:
        self.dropped = Counter(
            "cloud_hub_dropped_messages",
            "Core messages not answered, by reason.",
            ["reason"],
            registry=registry,
        )
        self.connects = Counter(
            "cloud_hub_bus_connects", "Connections made to NATS.", registry=registry
        )
        self.state_requests = Counter(
            "cloud_hub_state_requests", "State exchanges.", ["answer"], registry=registry
        )
        self.devices = Gauge(
            "cloud_hub_devices", "Devices heard of since start.", registry=registry
        )
