"""The synchronous core: a batch of messages in, what to emit and to store out.

It touches no socket, disk or wall clock, so the live agent and a replay run the very same path.
"""
