"""Turns a plan into a package's contents, or refuses: the order of the workshop's steps."""

from __future__ import annotations

import platform
from dataclasses import dataclass
from importlib.metadata import version

import numpy as np

from contract.canonical import sha256_hex
from contract.features import feature_digest
from contract.golden import encode_golden
from contract.manifest import (
    FORMAT,
    Compatibility,
    Manifest,
    Provenance,
    describe_blob,
    encode_manifest,
)
from quantize.errors import GateError
from quantize.fidelity import gate_problems
from quantize.plan import FamilyPlan
from quantize.report import BuildReport, report_variant
from quantize.variants import BuiltVariant, build_variant, features_of


@dataclass(frozen=True, slots=True)
class BuiltPackage:
    """What a package folder holds (`manifest` and `blobs` by path), and the report that lies beside it."""

    manifest: bytes
    blobs: dict[str, bytes]
    report: BuildReport


def build(plan: FamilyPlan) -> BuiltPackage:
    """Returns the package; raises GateError if a figure misses its gate. Writes nothing.

    The package is the same, byte for byte, on the same machine with the same library versions; the report
    holds latencies, and those are never the same twice.
    """
    features = features_of(plan)
    built = [build_variant(plan, wanted, features) for wanted in plan.variants]
    figures = {
        f"{b.variant.name}.{name}": round(value, 6)
        for b in built
        for name, value in manifest_figures(b).items()
    }
    problems = list(gate_problems(plan.gates, figures))
    if problems:
        raise GateError(f"{plan.family} is not packed: {'; '.join(problems)}")
    blobs: dict[str, bytes] = {}
    for b in built:
        blobs[b.variant.path] = b.model
        blobs[b.variant.golden.path] = encode_golden(b.golden)
    return BuiltPackage(
        manifest=encode_manifest(_manifest(plan, built, blobs, figures)),
        blobs=blobs,
        report=BuildReport(
            family=plan.family,
            release=plan.release,
            machine=f"{platform.machine()}, one thread",
            variants={b.variant.name: report_variant(b, features.evaluation[:1]) for b in built},
        ),
    )


def manifest_figures(built: BuiltVariant) -> dict[str, float]:
    """Returns the variant's figures that do not depend on the machine's speed, its float twin's beside them."""
    figures = dict(built.figures)
    if built.twin is not None:
        figures |= {f"float_{name}": value for name, value in built.twin.figures.items()}
        figures |= report_variant(built, None).fidelity
    return figures


def tool_versions() -> dict[str, str]:
    """Returns the versions of what has a say in a package's bytes."""
    names = ("numpy", "onnx", "onnxruntime", "scikit-learn")
    return {name: version(name) for name in names}


def _manifest(
    plan: FamilyPlan,
    built: list[BuiltVariant],
    blobs: dict[str, bytes],
    figures: dict[str, float],
) -> Manifest:
    return Manifest(
        format=FORMAT,
        family=plan.family,
        release=plan.release,
        version=plan.version,
        created=plan.created,
        kind=plan.kind,
        labels=plan.labels,
        features=plan.features,
        feature_digest=feature_digest(plan.features),
        variants=tuple(b.variant for b in built),
        blobs=tuple(describe_blob(path, data) for path, data in sorted(blobs.items())),
        compatibility=Compatibility(channels=plan.channels, period_s=plan.period_s),
        provenance=Provenance(
            recipe=f"models/{plan.family}/recipe.py",
            data=plan.data,
            data_digest=_data_digest(plan),
            tools=tool_versions(),
            report=figures,
        ),
        minimum_agent=plan.minimum_agent,
    )


def _data_digest(plan: FamilyPlan) -> str:
    parts = [plan.train.values, plan.train.times]
    if plan.train.labels is not None:
        parts.append(plan.train.labels.astype(np.float64))
    return sha256_hex(b"".join(np.ascontiguousarray(p, dtype="<f8").tobytes() for p in parts))
