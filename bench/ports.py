"""Loopback ports for tests and benchmarks: the claims are those of the drills, so that both agree."""

from edge_agent.rehearse.ports import HOST, free_port, release_port

__all__ = ["HOST", "free_port", "release_port"]
