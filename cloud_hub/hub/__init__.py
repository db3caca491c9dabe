"""One hub process: its rooms, how they are handed to one another, and its life."""
