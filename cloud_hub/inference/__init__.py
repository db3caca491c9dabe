"""Answers asks in time: admission, batches that meet deadlines, and the models that run them."""

import os

# onnxruntime reports its use to its maker unless this is set before it is imported (ADR 18).
os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")
