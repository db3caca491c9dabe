"""Reads a model package from a folder: each file once, into memory, verified before anything uses it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

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
from edge_agent.errors import ModelError

RUNTIMES = ("onnx",)


@dataclass(frozen=True, slots=True)
class Package:
    """One release for this device: the manifest, the variant to run, and its verified bytes."""

    manifest: Manifest
    digest: str
    variant: Variant
    model: bytes
    golden: GoldenVectors


def read_package(folder: Path) -> Package:
    """The device's variant of the package in `folder`.

    Raises ModelError that names the package and says what is wrong: no manifest, a blob that is not
    what the manifest says, no variant that this device can run.
    """
    try:
        raw = _read(folder / MANIFEST_NAME, MAX_MANIFEST_BYTES)
        manifest = parse_manifest(raw)
        variants = variants_for(manifest, "device", runtimes=RUNTIMES)
        if not variants:
            raise ManifestError(f"no variant for a device with the runtimes {', '.join(RUNTIMES)}")
        variant = variants[0]
        return Package(
            manifest=manifest,
            digest=manifest_digest(raw),
            variant=variant,
            model=_blob(folder, manifest, variant.path),
            golden=decode_golden(_blob(folder, manifest, variant.golden.path)),
        )
    except OSError as error:
        raise ModelError(
            f"cannot read the model package {folder}: {error.strerror or error}; "
            "`package` must name the folder that holds manifest.json"
        ) from error
    except ManifestError as error:
        raise ModelError(f"model package {folder}: {error}") from error


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
