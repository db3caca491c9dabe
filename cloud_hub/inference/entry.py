"""One model that is served: loaded, proven on its golden vectors, warmed, and measured before it is ready."""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np

from cloud_hub.errors import ConfigurationError, ModelFailed, PackageError
from cloud_hub.inference.backend import F32, Backend
from cloud_hub.inference.backends.onnx import OnnxBackend
from cloud_hub.inference.batcher import Batcher
from cloud_hub.inference.cost import CostModel
from cloud_hub.inference.packages import read_package
from cloud_hub.settings import InferenceSettings
from contract.golden import golden_problems
from contract.package import Package
from contract.scoring import Judgement, judge

WARM_RUNS: Final = 3


@dataclass(frozen=True, slots=True)
class ModelEntry:
    """A release that answers: what it is, what runs it, how long that takes, and who waits for it."""

    package: Package
    backend: Backend
    cost: CostModel
    batcher: Batcher
    buckets: tuple[int, ...]

    @property
    def family(self) -> str:
        """The name under which it is asked."""
        return self.package.manifest.family

    @property
    def release(self) -> int:
        """Which release answers."""
        return self.package.manifest.release

    def judge(self, features: F32) -> Judgement:
        """Labels, scores and confidences of features [b, f]; blocks; raises ModelFailed."""
        rows = len(features)
        if self.backend.describe().pads:
            bucket = next((size for size in self.buckets if size >= rows), rows)
            features = np.concatenate([features, np.repeat(features[-1:], bucket - rows, axis=0)])
        output = self.backend.run(features)
        return judge(self.package.variant, features=features[:rows], output=output[:rows])


def load_entries(folders: Iterable[Path], settings: InferenceSettings) -> dict[str, ModelEntry]:
    """The entries of these packages by family, each ready to answer; blocks.

    Raises PackageError for one that is torn or computes something else here, ConfigurationError for two
    packages of one family.
    """
    entries: dict[str, ModelEntry] = {}
    for folder in folders:
        entry = load_entry(read_package(folder), settings)
        if entry.family in entries:
            raise ConfigurationError(
                f"[models] packages names two releases of {entry.family}: {folder} is the second; keep one"
            )
        entries[entry.family] = entry
    return entries


def load_entry(package: Package, settings: InferenceSettings) -> ModelEntry:
    """A loaded, proven and warmed entry; blocks; raises PackageError."""
    variant = package.variant
    backend = OnnxBackend(package.model, variant, wish=settings.provider, threads=settings.threads)
    name = f"{package.manifest.family} release {package.manifest.release}, variant {variant.name}"
    max_batch = min(settings.max_batch, max(variant.batch_buckets))
    buckets = _buckets(variant.batch_buckets, max_batch)
    cost = CostModel()
    try:
        problems = list(golden_problems(package.manifest, variant, package.golden, backend.run))
        if problems:
            raise PackageError(f"{name} computes something else here: {'; '.join(problems)}")
        _warm(backend, package.golden.features, buckets, cost)
    except ModelFailed as error:
        raise PackageError(f"{name} fails on its golden vectors: {error}") from error
    batcher = Batcher(
        cost,
        max_batch=max_batch,
        max_rows=settings.max_queue_rows,
        max_bytes=settings.max_queue_bytes,
        buckets=buckets,
    )
    return ModelEntry(package, backend, cost, batcher, buckets)


def _buckets(declared: tuple[int, ...], max_batch: int) -> tuple[int, ...]:
    """The sizes that are warmed: powers of two and the manifest's, up to the largest batch."""
    powers = (2**power for power in range(max_batch.bit_length()))
    return tuple(sorted({size for size in (*declared, *powers) if size <= max_batch} | {max_batch}))


def _warm(backend: Backend, features: F32, buckets: tuple[int, ...], cost: CostModel) -> None:
    for rows in buckets:
        batch = np.ascontiguousarray(np.resize(features, (rows, features.shape[1])))
        best_s = float("inf")
        for _ in range(WARM_RUNS):
            started_s = time.perf_counter()
            backend.run(batch)
            best_s = min(best_s, time.perf_counter() - started_s)
        cost.seed(rows, best_s)
