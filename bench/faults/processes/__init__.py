"""Processes that are killed, frozen, starved or started with broken files."""
