"""onnxruntime reports to nobody: neither file nor thread of its telemetry after a model has run."""

import os
import subprocess
import sys
from pathlib import Path

PROBE = """
import threading, time
from pathlib import Path
from edge_agent.inference.package import read_package
from edge_agent.inference.scorer import Scorer
Scorer(read_package(Path("models/motion-class/package")))
time.sleep(0.5)
"""
ROOT = Path(__file__).resolve().parents[3]


def test_a_model_runs_without_the_telemetry_file(tmp_path: Path):
    environment = {**os.environ, "TMPDIR": str(tmp_path)}
    environment.pop("ORT_DISABLE_TELEMETRY", None)
    subprocess.run([sys.executable, "-c", PROBE], cwd=ROOT, env=environment, check=True, timeout=30)
    assert list(tmp_path.iterdir()) == []


def test_the_evidence_is_real_an_unsilenced_runtime_leaves_the_file(tmp_path: Path):
    environment = {**os.environ, "TMPDIR": str(tmp_path), "ORT_DISABLE_TELEMETRY": "0"}
    subprocess.run([sys.executable, "-c", PROBE], cwd=ROOT, env=environment, check=True, timeout=30)
    assert [path.name for path in tmp_path.iterdir()] == [".ses"]
