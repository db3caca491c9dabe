"""Importing the product does nothing else: no thread, no socket, no process, no file written."""

import subprocess
import sys

import pytest

from tests.architecture.tree import PRODUCT, ROOT, python_files, shown

_WATCH = """
import importlib, sys, threading
done = []
def hook(event, args):
    if event in {"socket.bind", "socket.connect", "socket.getaddrinfo", "subprocess.Popen",
                 "os.mkdir", "os.remove", "os.rename", "signal.pthread_kill", "os.fork"}:
        done.append(f"{event} {args!r}")
    elif event == "open" and isinstance(args[1], str) and set(args[1]) & set("wax+"):
        done.append(f"open {args[0]!r} {args[1]!r}")
sys.addaudithook(hook)
for name in sys.argv[1:]:
    importlib.import_module(name)
    done += [f"thread {t.name}" for t in threading.enumerate() if t is not threading.main_thread()]
    if done:
        sys.exit(f"importing {name}: " + "; ".join(done))
"""


def _modules(package: str) -> list[str]:
    names = []
    for path in python_files(package):
        parts = shown(path)[:-3].split("/")
        if parts[-1] == "__main__":
            continue
        names.append(".".join(parts[:-1] if parts[-1] == "__init__" else parts))
    return names


@pytest.mark.parametrize("package", PRODUCT)
def test_importing_every_module_does_nothing_else(package: str):
    command = [sys.executable, "-B", "-c", _WATCH, *_modules(package)]
    ended = subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, timeout=50, check=False
    )
    assert ended.returncode == 0, ended.stderr
