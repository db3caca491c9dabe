"""What people and machines can see of the agent: logs, metrics, health, samples, explanations."""
