"""Clocks that are wrong, and become right while the device runs."""
