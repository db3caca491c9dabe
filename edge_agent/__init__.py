"""The agent on the device: sensors in, verdicts out, within a deadline, with the hub there or away."""
