"""MQTT: publishes in as batches, publishes out; the only room that knows paho."""
