"""The model package manifest: what a package holds, for whom, and how to tell that it is whole.

A package is one release of one family: `manifest.json` beside its blobs, in several variants. Blobs are
data, never code. Reading and writing files is the caller's business.

    ManifestError(ValueError)   not a manifest, one that contradicts itself, or a blob that is not what it says
"""

from __future__ import annotations

import re
from typing import Final, Literal, TypeVar

import msgspec

from contract.canonical import canonical_json, sha256_hex
from contract.manifest_parts import (
    CHUNK_BYTES,
    Blob,
    ChannelNeed,
    Compatibility,
    Golden,
    Manifest,
    ManifestError,
    Provenance,
    Resources,
    TensorSpec,
    Variant,
)
from contract.manifest_rules import MANIFEST_NAME, manifest_problems

__all__ = [
    "CHUNK_BYTES",
    "FORMAT",
    "MANIFEST_NAME",
    "MAX_MANIFEST_BYTES",
    "Blob",
    "ChannelNeed",
    "Compatibility",
    "Golden",
    "Manifest",
    "ManifestError",
    "Provenance",
    "Resources",
    "TensorSpec",
    "Variant",
    "blob_of",
    "check_manifest",
    "describe_blob",
    "encode_manifest",
    "manifest_digest",
    "parse_manifest",
    "variants_for",
    "verify_blob",
    "verify_chunk",
]

FORMAT: Final = "1.0"
FORMAT_MAJOR: Final = 1
MAX_MANIFEST_BYTES: Final = 4 * 1024 * 1024

_FORMAT_PATTERN: Final = re.compile(r"([1-9][0-9]{0,3})\.[0-9]{1,4}")

T = TypeVar("T")


class _Head(msgspec.Struct):
    format: str


def parse_manifest(data: bytes) -> Manifest:
    """Returns a manifest whose parts agree with one another; raises ManifestError and nothing else.

    Fields that this version does not know are ignored, except in the feature specification, where they would
    change the result. An unknown major format version is refused.
    """
    if len(data) > MAX_MANIFEST_BYTES:
        raise ManifestError(f"manifest of {len(data)} bytes; at most {MAX_MANIFEST_BYTES} are read")
    major = _FORMAT_PATTERN.fullmatch(_decode(data, _Head).format)
    if major is None or int(major[1]) != FORMAT_MAJOR:
        raise ManifestError(
            f"manifest format is not {FORMAT_MAJOR}.x: this package needs another version of the product"
        )
    manifest = _decode(data, Manifest)
    check_manifest(manifest)
    return manifest


def encode_manifest(manifest: Manifest) -> bytes:
    """Returns the canonical bytes of `manifest.json`; raises ManifestError if `parse_manifest` would refuse them."""
    data = canonical_json(manifest)
    parse_manifest(data)
    return data


def manifest_digest(data: bytes) -> str:
    """Returns the SHA-256 (hex) of the manifest's bytes as they are; what an assignment and a signature name."""
    return sha256_hex(data)


def check_manifest(manifest: Manifest) -> None:
    """Returns only if the manifest's parts agree with one another; raises ManifestError with the first that does not."""
    for problem in manifest_problems(manifest):
        raise ManifestError(f"manifest: {problem}")


def describe_blob(path: str, data: bytes) -> Blob:
    """Returns the entry that `verify_blob` accepts for exactly these bytes."""
    starts = range(0, len(data), CHUNK_BYTES)
    return Blob(
        path=path,
        sha256=sha256_hex(data),
        length=len(data),
        chunks=tuple(sha256_hex(data[start : start + CHUNK_BYTES]) for start in starts),
    )


def verify_blob(blob: Blob, data: bytes) -> None:
    """Returns only if `data` is exactly the blob; raises ManifestError otherwise."""
    if len(data) != blob.length:
        raise ManifestError(f"{blob.path}: {len(data)} bytes, the manifest says {blob.length}")
    if sha256_hex(data) != blob.sha256:
        raise ManifestError(f"{blob.path}: content differs from the manifest's hash")


def verify_chunk(blob: Blob, index: int, data: bytes) -> None:
    """Returns only if `data` is chunk number `index` (from 0) of the blob; raises ManifestError otherwise."""
    if not 0 <= index < len(blob.chunks):
        raise ManifestError(f"{blob.path}: no chunk {index}; it has {len(blob.chunks)}")
    if sha256_hex(data) != blob.chunks[index]:
        raise ManifestError(f"{blob.path}: chunk {index} differs from the manifest's hash")


def blob_of(manifest: Manifest, path: str) -> Blob:
    """Returns the entry for a path; raises ManifestError if the package has none."""
    for blob in manifest.blobs:
        if blob.path == path:
            return blob
    raise ManifestError(f"no blob {path!r} in {manifest.family} release {manifest.release}")


def variants_for(
    manifest: Manifest, role: Literal["device", "hub"], *, runtimes: tuple[str, ...]
) -> tuple[Variant, ...]:
    """Returns the variants with this role that one of the runtimes can run, in the manifest's order."""
    return tuple(v for v in manifest.variants if v.role == role and v.runtime in runtimes)


def _decode(data: bytes, kind: type[T]) -> T:
    try:
        return msgspec.json.decode(data, type=kind)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise ManifestError(f"not a manifest: {error}") from error
