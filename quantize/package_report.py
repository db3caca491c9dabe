"""Proves a package on this machine: hashes, golden vectors, and what one row costs here."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import msgspec

from contract.golden import decode_golden
from contract.manifest import blob_of, manifest_digest
from quantize.package import package_problems, read_package
from quantize.session import latency_us


class VariantProof(msgspec.Struct, frozen=True):
    """One variant as it is, here: size, and the median time of one row on one thread."""

    role: str
    precision: str
    model_bytes: int
    latency_us: float
    within_budget: bool


class PackageProof(msgspec.Struct, frozen=True):
    """What a package is and whether it computes here what it computed in the workshop."""

    family: str
    release: int
    sha256: str
    problems: list[str]
    variants: dict[str, VariantProof]
    report: dict[str, float]


def prove(folder: Path) -> PackageProof:
    """Returns the proof; raises PackageError if the package is incomplete or damaged."""
    package = read_package(folder)
    manifest = package.manifest
    variants: dict[str, VariantProof] = {}
    problems = package_problems(package)
    for variant in manifest.variants:
        row = decode_golden(package.blobs[variant.golden.path]).features[:1]
        spent_us = round(latency_us(package.runner(variant), row), 1)
        within = spent_us <= variant.resources.max_p95_ms * 1000.0
        if not within:
            problems.append(f"{variant.name}: one row takes {spent_us} µs, over its budget")
        variants[variant.name] = VariantProof(
            role=variant.role,
            precision=variant.precision,
            model_bytes=blob_of(manifest, variant.path).length,
            latency_us=spent_us,
            within_budget=within,
        )
    return PackageProof(
        family=manifest.family,
        release=manifest.release,
        sha256=manifest_digest(package.manifest_bytes),
        problems=problems,
        variants=variants,
        report=manifest.provenance.report,
    )


def proof_lines(proof: PackageProof) -> Iterator[str]:
    """Yields the proof as text."""
    yield f"{proof.family} release {proof.release}, manifest {proof.sha256}"
    for name, variant in proof.variants.items():
        yield (
            f"  {name}: {variant.role}, {variant.precision}, {variant.model_bytes} bytes, "
            f"one row {variant.latency_us} µs here"
        )
    yield "  measured when it was built:"
    for figure, value in proof.report.items():
        yield f"    {figure:<40}{value:>12.6g}"
    for problem in proof.problems:
        yield f"  problem: {problem}"
    if not proof.problems:
        yield "  every hash and every golden vector is right on this machine"
