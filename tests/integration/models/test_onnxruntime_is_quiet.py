"""onnxruntime reports to nobody: neither file nor thread of its telemetry after a model has run."""

import os
import subprocess
import sys
from pathlib import Path

PROBE = """
import sys, time
from pathlib import Path
from edge_agent.inference.package import read_package
from edge_agent.inference.scorer import Scorer
Scorer(read_package(Path("models/motion-class/package")))
deadline = time.monotonic() + float(sys.argv[1])
while time.monotonic() < deadline and not Path(sys.argv[2], ".ses").exists():
    time.sleep(0.05)
"""
ROOT = Path(__file__).resolve().parents[3]


def run(environment: dict[str, str], wait_s: str, folder: Path) -> None:
    """Loads and proves a model in a fresh process, which then watches for the file."""
    command = [sys.executable, "-c", PROBE, wait_s, str(folder)]
    subprocess.run(command, cwd=ROOT, env=environment, check=True, timeout=50)


def test_a_model_runs_without_the_telemetry_file(tmp_path: Path):
    environment = {**os.environ, "TMPDIR": str(tmp_path)}
    environment.pop("ORT_DISABLE_TELEMETRY", None)
    run(environment, "0.5", tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_the_evidence_is_real_an_unsilenced_runtime_leaves_the_file(tmp_path: Path):
    environment = {**os.environ, "TMPDIR": str(tmp_path), "ORT_DISABLE_TELEMETRY": "0"}
    environment.pop("CI", None)  # the runtime is quiet by itself where it believes to be in CI
    run(environment, "20", tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == [".ses"]
