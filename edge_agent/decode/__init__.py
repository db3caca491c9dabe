"""Payloads to readings: one file for each payload convention, each compiled once per stream table."""
