"""Which stream a topic feeds, which values are possible, and which times can be trusted."""
