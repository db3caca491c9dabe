"""A long time without the hub: what is kept, what booting costs, and how it drains."""
