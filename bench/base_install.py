"""The base install that a device gets, in an environment of its own: what is measured is what is shipped.

The development environment has libraries that the agent would load because they are there (structlog
loads rich). The environment lies in `.venv-base` in the repository's root; its libraries are installed
once, the product itself anew each time.
"""

import hashlib
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
FOLDER = ROOT / ".venv-base"


def base_install() -> Path:
    """The folder of the commands of a base install of this very checkout."""
    python = FOLDER / "bin" / "python"
    stamp = FOLDER / ".stamp"
    wanted = _digest()
    if not stamp.exists() or stamp.read_text(encoding="utf-8") != wanted:
        _run(sys.executable, "-m", "venv", "--clear", str(FOLDER))
        _pip(python, "-c", str(ROOT / "constraints.txt"), str(ROOT))
        stamp.write_text(wanted, encoding="utf-8")
    else:
        _pip(python, "--no-deps", "--force-reinstall", str(ROOT))
    return FOLDER / "bin"


def disk_mb() -> float:
    """What the base install takes on the disk, in MB, Python itself not counted."""
    files = (path for path in FOLDER.rglob("*") if path.is_file() and not path.is_symlink())
    return sum(path.stat().st_size for path in files) / 1e6


def _digest() -> str:
    parts = [(ROOT / name).read_bytes() for name in ("pyproject.toml", "constraints.txt")]
    return hashlib.sha256(b"\0".join([*parts, sys.version.encode()])).hexdigest()


def _pip(python: Path, *arguments: str) -> None:
    _run(str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *arguments)


def _run(*command: str) -> None:
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
