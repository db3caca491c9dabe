"""The project's files as the architecture tests see them."""

import ast
import subprocess
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PRODUCT = ("contract", "edge_agent", "cloud_hub", "quantize")
CODE = (*PRODUCT, "bench", "deploy", "models")
_NOT_OURS = {"__pycache__", "build", "dist", "run", ".git", ".venv", ".hypothesis"}
_CACHES = {".mypy_cache", ".pytest_cache", ".ruff_cache", ".import_linter_cache"}


@cache
def python_files(*folders: str) -> tuple[Path, ...]:
    """Every Python file under the given folders, in a fixed order."""
    found = (path for name in folders for path in (ROOT / name).rglob("*.py"))
    return tuple(sorted(p for p in found if not _NOT_OURS & set(p.relative_to(ROOT).parts)))


@cache
def syntax(path: Path) -> ast.Module:
    """The parsed file."""
    return ast.parse(path.read_text(encoding="utf-8"), filename=str(path))


@cache
def project_files() -> tuple[Path, ...]:
    """Every file of the project that git has or would take; without git, every file there is."""
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z"]
    try:
        listed = subprocess.run(command, cwd=ROOT, capture_output=True, check=True)
        names = listed.stdout.decode().split("\0")
        paths = [ROOT / name for name in names if name]
    except (OSError, subprocess.CalledProcessError):
        made = _NOT_OURS | _CACHES
        paths = [path for path in ROOT.rglob("*") if not made & set(path.relative_to(ROOT).parts)]
    return tuple(sorted(path for path in paths if path.is_file()))


def shown(path: Path) -> str:
    """The path as a reader names it."""
    return path.relative_to(ROOT).as_posix()
