"""The agent's lifetime: what starts in which order, who owns which task, and how it drains."""
