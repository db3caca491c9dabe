"""The workshop: from public data to small INT8 models in packages, with an honest report beside each."""

import os

# onnxruntime reports its use to its maker unless this is set before it is imported (ADR 18).
os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")
