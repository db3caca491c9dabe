"""Telemetry and events come in, are stored once, and are acknowledged after the commit."""
