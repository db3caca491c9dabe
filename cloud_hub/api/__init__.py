"""How the hub tells others how it is: /livez, /readyz and /metrics on loopback, and systemd."""
