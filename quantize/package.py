"""Packages on disk: written whole, read with every hash checked."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from contract.golden import decode_golden, golden_problems
from contract.manifest import (
    MANIFEST_NAME,
    MAX_MANIFEST_BYTES,
    Manifest,
    ManifestError,
    Variant,
    blob_of,
    parse_manifest,
    verify_blob,
)
from quantize.errors import PackageError
from quantize.session import Runner, load


@dataclass(frozen=True, slots=True)
class Package:
    """A package whose every blob has been read and matches its hash."""

    manifest: Manifest
    manifest_bytes: bytes
    blobs: dict[str, bytes]

    def runner(self, variant: Variant) -> Runner:
        """The variant's model, loaded."""
        return load(self.blobs[variant.path])


def read_package(folder: Path) -> Package:
    """Returns the package in a folder; raises PackageError if it is incomplete or damaged."""
    try:
        data = _read(folder / MANIFEST_NAME, MAX_MANIFEST_BYTES)
        manifest = parse_manifest(data)
        blobs: dict[str, bytes] = {}
        for blob in manifest.blobs:
            content = _read(folder / blob.path, blob.length)
            verify_blob(blob, content)
            blobs[blob.path] = content
    except (OSError, ManifestError) as error:
        raise PackageError(f"{folder} is no whole package: {error}") from error
    return Package(manifest=manifest, manifest_bytes=data, blobs=blobs)


def write_package(folder: Path, *, manifest: bytes, blobs: dict[str, bytes]) -> None:
    """Writes a package into a folder, the manifest last; files of an older build are removed.

    Raises PackageError if the folder holds something that is not a package's.
    """
    parsed = parse_manifest(manifest)
    for path, data in blobs.items():
        verify_blob(blob_of(parsed, path), data)
    old = set(_files(folder))
    if old and MANIFEST_NAME not in old:
        raise PackageError(f"{folder} is not empty and no package; choose another folder")
    (folder / MANIFEST_NAME).unlink(missing_ok=True)
    for path in sorted(old - {MANIFEST_NAME} - set(blobs)):
        (folder / path).unlink()
    for path, data in blobs.items():
        target = folder / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(data)
    (folder / MANIFEST_NAME).write_bytes(manifest)


def package_problems(package: Package) -> list[str]:
    """Returns how the package's models differ from their golden vectors on this machine; empty if they do not."""
    problems = []
    for variant in package.manifest.variants:
        golden = decode_golden(package.blobs[variant.golden.path])
        runner = package.runner(variant)
        found = golden_problems(package.manifest, variant, golden, runner)
        problems += [f"{variant.name}: {problem}" for problem in found]
    return problems


def same_package(a: Package, b: Package) -> bool:
    """Returns whether two packages are equal, byte for byte."""
    return a.manifest_bytes == b.manifest_bytes and a.blobs == b.blobs


def _files(folder: Path) -> list[str]:
    return [p.relative_to(folder).as_posix() for p in folder.rglob("*") if p.is_file()]


def _read(path: Path, limit: int) -> bytes:
    with path.open("rb") as file:
        data = file.read(limit + 1)
    if len(data) > limit:
        raise PackageError(f"{path} is larger than {limit} bytes")
    return data
