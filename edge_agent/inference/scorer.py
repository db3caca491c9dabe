"""Scores windows with one release: features, model, judgement; immutable, so a swap is by reference."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from contract.features import compile_features, inside_envelope
from contract.golden import golden_problems
from contract.package import Package
from contract.scoring import judge
from edge_agent.errors import ConfigurationError, ModelError
from edge_agent.inference.onnx import OnnxModel
from edge_agent.types import F32, F64


@dataclass(frozen=True, slots=True)
class Scores:
    """What a model says of m windows: label indices, scores, confidence, in the training range or not.

    `features` [m, f] are kept for an escalation. `usable` is False where a score is not finite.
    """

    labels: NDArray[np.int64]
    scores: F64
    confidence: F64
    in_domain: NDArray[np.bool_]
    usable: NDArray[np.bool_]
    features: F32


class Scorer:
    """One release, ready to score windows of streams that have its channels."""

    def __init__(self, package: Package) -> None:
        """Loads the model and proves its golden vectors on this very CPU; raises ModelError."""
        self.manifest = package.manifest
        self.variant = package.variant
        self.digest = package.digest
        self._features = compile_features(package.manifest.features)
        self._model = OnnxModel(package.model, package.variant)
        problems = list(
            golden_problems(package.manifest, package.variant, package.golden, self._model.run)
        )
        if problems:
            raise ModelError(
                f"{self.family} release {self.release} does not compute on this device what it "
                f"computed when it was made: {'; '.join(problems)}"
            )

    @property
    def family(self) -> str:
        """The model family."""
        return self.manifest.family

    @property
    def release(self) -> int:
        """The release within the family."""
        return self.manifest.release

    @property
    def labels(self) -> tuple[str, ...]:
        """The labels by index."""
        return self.manifest.labels

    @property
    def shape(self) -> tuple[int, int]:
        """The window and the hop, in readings."""
        return self.manifest.features.window, self.manifest.features.hop

    def columns(self, channels: tuple[str, ...], *, stream: str) -> NDArray[np.int64]:
        """Where the model's channels stand among a stream's; raises ConfigurationError."""
        wanted = self.manifest.features.channels
        absent = [name for name in wanted if name not in channels]
        if absent:
            raise ConfigurationError(
                f"[[stream]] {stream!r}: model {self.family!r} needs the channels "
                f"{', '.join(wanted)}; not declared: {', '.join(absent)}"
            )
        return np.array([channels.index(name) for name in wanted], dtype=np.int64)

    def score(self, values: F64, times_s: F64) -> Scores:
        """Scores windows [m, n, c] (the model's channels, in its order) at times [m, n].

        Raises ModelError when the model fails as a whole.
        """
        features = self._features(values, times_s)
        output = self._model.run(features)
        judged = judge(self.variant, features=features, output=output)
        usable = np.isfinite(judged.scores) & np.isfinite(judged.confidence)
        return Scores(
            labels=judged.labels,
            scores=judged.scores,
            confidence=judged.confidence,
            in_domain=inside_envelope(self.manifest.features, features),
            usable=usable,
            features=features,
        )
