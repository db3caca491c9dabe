"""The connection to NATS: its life, the streams, who may be answered; the only importer of nats."""
