"""Where messages come from: the brokers, or a recording."""
