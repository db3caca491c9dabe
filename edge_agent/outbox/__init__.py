"""The device's durable queue towards the hub: stored before it is acknowledged, kept until it is applied."""
