"""Reads a model package: each file once, into memory, verified before anything uses it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final, TypeVar

from cloud_hub.errors import PackageError
from contract.golden import GoldenVectors, decode_golden
from contract.manifest import (
    MANIFEST_NAME,
    MAX_MANIFEST_BYTES,
    Manifest,
    ManifestError,
    Variant,
    blob_of,
    manifest_digest,
    parse_manifest,
    variants_for,
    verify_blob,
)

RUNTIMES: Final = ("onnx",)

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Package:
    """One release for the hub: the manifest, the variant to run, and its verified bytes."""

    manifest: Manifest
    digest: str
    variant: Variant
    model: bytes
    golden: GoldenVectors


def read_manifest(folder: Path) -> Manifest:
    """The manifest of the package in `folder`; raises PackageError."""
    return _guarded(
        folder, lambda: parse_manifest(_read(folder / MANIFEST_NAME, MAX_MANIFEST_BYTES))
    )


def read_package(folder: Path) -> Package:
    """The variant for the hub, or the device's where there is none; raises PackageError saying what is wrong."""

    def read() -> Package:
        raw = _read(folder / MANIFEST_NAME, MAX_MANIFEST_BYTES)
        manifest = parse_manifest(raw)
        variants = (
            *variants_for(manifest, "hub", runtimes=RUNTIMES),
            *variants_for(manifest, "device", runtimes=RUNTIMES),
        )
        if not variants:
            raise ManifestError(f"no variant for the runtimes of this hub ({', '.join(RUNTIMES)})")
        variant = variants[0]
        return Package(
            manifest=manifest,
            digest=manifest_digest(raw),
            variant=variant,
            model=_blob(folder, manifest, variant.path),
            golden=decode_golden(_blob(folder, manifest, variant.golden.path)),
        )

    return _guarded(folder, read)


def _guarded(folder: Path, read: Callable[[], T]) -> T:
    try:
        return read()
    except OSError as error:
        raise PackageError(
            f"cannot read the model package {folder}: {error.strerror or error}; "
            "[models] packages must name folders that hold manifest.json"
        ) from error
    except ManifestError as error:
        raise PackageError(f"model package {folder}: {error}") from error


def _blob(folder: Path, manifest: Manifest, path: str) -> bytes:
    blob = blob_of(manifest, path)
    content = _read(folder / path, blob.length)
    verify_blob(blob, content)
    return content


def _read(path: Path, most: int) -> bytes:
    with path.open("rb") as file:
        content = file.read(most + 1)
    if len(content) > most:
        raise ManifestError(f"{path.name} is longer than the {most} bytes it may have")
    return content
