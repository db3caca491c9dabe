"""What both sides agree on: names, wire forms, features, packages. Does no I/O and imports nothing of ours."""
