"""The connection to the hub: one NATS client, its health, the state exchange, and inference requests."""
