"""Loads the models that the configuration names; one that fails costs its streams a tier, no more."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from edge_agent.errors import ConfigurationError, ModelError
from edge_agent.inference.package import read_package
from edge_agent.inference.scorer import Scorer
from edge_agent.settings import Settings


@dataclass(frozen=True, slots=True)
class Loaded:
    """The scorers by family, and what went wrong by package path."""

    scorers: dict[str, Scorer]
    failures: dict[str, str]


def load_scorers(
    settings: Settings,
    *,
    left_out: Mapping[str, str] | None = None,
    begin: Callable[[str], None] = lambda _: None,
) -> Loaded:
    """Every `[[model]]`, proved on its golden vectors, but for those that are `left_out` (and why).

    `begin` is told each package's path before it is loaded: what then ends the process is known.
    Raises ConfigurationError when two packages are of one family, or a stream names a family that
    no package was declared for (unless a package failed to load: it may have been that one).
    """
    scorers: dict[str, Scorer] = {}
    failures: dict[str, str] = {}
    for model in settings.model:
        path = str(model.package)
        if left_out and path in left_out:
            failures[path] = left_out[path]
            continue
        begin(path)
        try:
            scorer = Scorer(read_package(model.package))
        except ModelError as error:
            failures[path] = str(error)
            continue
        if scorer.family in scorers:
            raise ConfigurationError(
                f"[[model]] {model.package}: a second package of family {scorer.family!r}; "
                "keep one release of a family"
            )
        scorers[scorer.family] = scorer
    for stream in settings.stream:
        if stream.model is not None and stream.model not in scorers and not failures:
            known = ", ".join(sorted(scorers)) or "none; add a [[model]] table"
            raise ConfigurationError(
                f"[[stream]] {stream.name!r}: no package of model family {stream.model!r} is "
                f"declared; declared: {known}"
            )
    return Loaded(scorers, failures)
