"""A disk that forgets in a power cut what was not synced; a FUSE file system for the fault programme.

    python -m bench.faults.powercut MOUNT STORE CONTROL

The program is the disk: while it lives, everything works as on any file system. Killed (SIGKILL), it
leaves in STORE what had been synced, and mounted again it shows that. docs/explanation/power-cuts.md
says exactly what survives. Inside a drill, use `bench.faults.powercut.disk.PowerCutDisk`.
"""
