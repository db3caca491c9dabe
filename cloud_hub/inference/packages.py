"""Reads a model package: each file once, into memory, verified before anything uses it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from cloud_hub.errors import PackageError
from contract.manifest import Manifest, ManifestError
from contract.package import Package, ReadFile, open_manifest, open_package

RUNTIMES: Final = ("onnx",)


def read_manifest(folder: Path) -> Manifest:
    """The manifest of the package in `folder`; raises PackageError."""
    with _guarded(folder):
        return open_manifest(_reader(folder))[0]


def read_package(folder: Path) -> Package:
    """The variant for the hub, or the device's where there is none; raises PackageError saying what is wrong."""
    with _guarded(folder):
        return open_package(_reader(folder), roles=("hub", "device"), runtimes=RUNTIMES)


def _reader(folder: Path) -> ReadFile:
    def read(path: str, most: int) -> bytes:
        with (folder / path).open("rb") as file:
            return file.read(most + 1)

    return read


@contextmanager
def _guarded(folder: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise PackageError(
            f"cannot read the model package {folder}: {error.strerror or error}; "
            "[models] packages must name folders that hold manifest.json"
        ) from error
    except ManifestError as error:
        raise PackageError(f"model package {folder}: {error}") from error
