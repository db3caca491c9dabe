"""Who answers a window, and whether the hub is asked: pure decisions, with their reasons."""
