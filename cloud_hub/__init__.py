"""The hub: answers hard windows in time, keeps what devices send, tells them what it holds."""
