"""Who can answer on the device: INT8 models, and a baseline that needs none."""

import os

# onnxruntime reports its use to its maker unless this is set before it is imported (ADR 18).
os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")
