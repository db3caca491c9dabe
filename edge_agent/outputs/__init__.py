"""What the agent says on MQTT: verdicts, alarms, revisions, its status and its health."""
