"""The tutorial works as it is written: its blocks, one after another, in one shell."""

import os
import re
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest

from bench.ports import free_port, release_port
from tests.architecture.tree import ROOT
from tests.unit.docs.pages import blocks

PORTS = ("1883", "4222", "4223", "8222", "9464", "9465")


def _script(ports: dict[str, str]) -> str:
    """All blocks but the first (`make .venv`), on free ports, each with a line that names it."""
    parts = blocks(ROOT / "docs/tutorial.md", "sh")[1:]
    text = "\n".join(f"echo '=== {number}'\n{part}" for number, part in enumerate(parts))
    text = text.replace("[[stream]]", f"[http]\nport = {ports['9464']}\n\n[[stream]]", 1)
    text = text.replace("[store]", f"[http]\nport = {ports['9465']}\n\n[store]", 1)
    broker = f"--broker mqtt://127.0.0.1:{ports['1883']}"
    text = text.replace("simulate --input", f"simulate {broker} --input")
    text = text.replace(
        'hostname="127.0.0.1", port=1883', f'hostname="127.0.0.1", port={ports["1883"]}'
    )
    return re.sub(r"(?<=127\.0\.0\.1:)(\d+)", lambda found: ports.get(found[1], found[1]), text)


@pytest.mark.timeout(270)
def test_every_block_of_the_tutorial_works(tmp_path: Path):
    ports = {port: str(free_port()) for port in PORTS}
    script = tmp_path / "tutorial.sh"
    script.write_text(_script(ports), encoding="utf-8")
    environment = {**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    shell = subprocess.Popen(
        ["bash", "-eu", "-o", "pipefail", script.name],
        cwd=tmp_path,
        env={**environment, "COLUMNS": "200"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    try:
        output, _ = shell.communicate(timeout=240)
    finally:
        _end_group(shell)
        for port in ports.values():
            release_port(int(port))
    assert shell.returncode == 0, output[-3000:]
    step = dict(re.findall(r"^=== (\d+)\n(.*?)(?=^=== |\Z)", output, re.MULTILINE | re.DOTALL))
    shown = "\n".join(step.values())
    assert "temperature = 71.5 °C" in shown
    assert "pressure = 2.1 bar" in shown
    assert "messages   400   readings 399" in shown
    assert "bad_json 1" in shown
    assert shown.count('"alarm_raised"') == 2
    assert "alarm 2" in shown
    assert "answer   anomaly" in shown
    assert "skerry/tutorial/health" in shown
    assert "skerry/tutorial/verdict/boiler/" in shown
    before, after = (
        text
        for text in step.values()
        if "dead letters" in text and "last seen" in text and "readings" in text
    )
    assert "409" in before
    assert "808" in after
    assert all(f"{lane:<8} 0 rows not yet" in after for lane in ("evt", "bulk", "tel"))


def _end_group(shell: subprocess.Popen[str]) -> None:
    """Ends what the shell left behind when it stopped early, and says how far it had come."""
    with suppress(ProcessLookupError):
        os.killpg(shell.pid, 15)
    try:
        output, _ = shell.communicate(timeout=15)
    except subprocess.TimeoutExpired:
        shell.kill()
        output, _ = shell.communicate()
    if shell.returncode:
        print(output[-3000:])
