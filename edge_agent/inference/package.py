"""Reads a model package from a folder: each file once, into memory, verified before anything uses it."""

from __future__ import annotations

from pathlib import Path

from contract.manifest import ManifestError
from contract.package import Package, open_package
from edge_agent.errors import ModelError

RUNTIMES = ("onnx",)


def read_package(folder: Path) -> Package:
    """The device's variant of the package in `folder`.

    Raises ModelError that names the package and says what is wrong: no manifest, a blob that is not
    what the manifest says, no variant that this device can run.
    """

    def read(path: str, most: int) -> bytes:
        with (folder / path).open("rb") as file:
            return file.read(most + 1)

    try:
        return open_package(read, roles=("device",), runtimes=RUNTIMES)
    except OSError as error:
        raise ModelError(
            f"cannot read the model package {folder}: {error.strerror or error}; "
            "`package` must name the folder that holds manifest.json"
        ) from error
    except ManifestError as error:
        raise ModelError(f"model package {folder}: {error}") from error
