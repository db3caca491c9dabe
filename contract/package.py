"""Opens a model package: every part verified before anything uses it.

Pure: the caller brings the function that reads a file of the package, so that the same checks serve
a folder, a blob store and a test.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

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

ReadFile = Callable[[str, int], bytes]
"""From a path in the package and a number of bytes: the content, at most one byte more than that."""


@dataclass(frozen=True, slots=True)
class Package:
    """One release, opened for one role: the manifest, the variant to run, its verified bytes."""

    manifest: Manifest
    digest: str
    variant: Variant
    model: bytes
    golden: GoldenVectors


def open_manifest(read: ReadFile) -> tuple[Manifest, str]:
    """The manifest of a package and its digest; raises ManifestError."""
    raw = _bounded(read, MANIFEST_NAME, MAX_MANIFEST_BYTES)
    return parse_manifest(raw), manifest_digest(raw)


def open_package(
    read: ReadFile, *, roles: tuple[Literal["device", "hub"], ...], runtimes: tuple[str, ...]
) -> Package:
    """The first variant for one of the roles, in their order, that one of the runtimes can run.

    Raises ManifestError when there is none, or a part is not what the manifest says.
    """
    manifest, digest = open_manifest(read)
    variants = [v for role in roles for v in variants_for(manifest, role, runtimes=runtimes)]
    if not variants:
        raise ManifestError(
            f"no variant for a {' or '.join(roles)} with the runtimes {', '.join(runtimes)}"
        )
    variant = variants[0]
    return Package(
        manifest=manifest,
        digest=digest,
        variant=variant,
        model=_blob(read, manifest, variant.path),
        golden=decode_golden(_blob(read, manifest, variant.golden.path)),
    )


def _blob(read: ReadFile, manifest: Manifest, path: str) -> bytes:
    blob = blob_of(manifest, path)
    content = _bounded(read, path, blob.length)
    verify_blob(blob, content)
    return content


def _bounded(read: ReadFile, path: str, most: int) -> bytes:
    content = read(path, most)
    if len(content) > most:
        raise ManifestError(f"{path} is longer than the {most} bytes it may have")
    return content
