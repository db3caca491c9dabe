"""What the third start does without when two in a row failed (pure).

The rule: leave out the least that explains both failures. Where nothing can be left out, start as
always: a restart alone may help.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum

from edge_agent.agent.starts import Failure, Phase, Replaced

FAILURES = 2
"""So many failed starts in a row make the next one careful."""


class Spool(Enum):
    """What becomes of the outbox's file at a start."""

    KEEP = "keep"
    SALVAGE = "salvage"
    """It is set aside, and what is sound in it goes into a new one."""
    EMPTY = "empty"
    """It is set aside, and a new one begins: reading it is what fails."""


@dataclass(frozen=True, slots=True)
class Plan:
    """How this start differs from an ordinary one; `why` has a sentence for each difference."""

    good_configuration: bool = False
    models: frozenset[str] = frozenset()
    spool: Spool = Spool.KEEP
    why: tuple[str, ...] = ()

    @property
    def careful(self) -> bool:
        """Whether it differs at all."""
        return self.good_configuration or bool(self.models) or self.spool is not Spool.KEEP

    @property
    def without(self) -> tuple[str, ...]:
        """What this start does without, in a word each."""
        words = ["configuration"] if self.good_configuration else []
        words += [f"model {package}" for package in sorted(self.models)]
        return (*words, *(["outbox"] if self.spool is not Spool.KEEP else []))

    def replaced(self, fingerprint: Callable[[str], str]) -> Replaced:
        """What is to be remembered until it changes."""
        models = {package: fingerprint(package) for package in sorted(self.models)}
        return Replaced(self.good_configuration, models, self.why)


def make_plan(
    failures: Sequence[Failure], *, good_differs: bool, packages: Sequence[str] = ()
) -> Plan:
    """The plan after these failures, newest last.

    `good_differs`: a configuration that ran well is kept, and the present one is another.
    `packages` are the model packages of the present one.
    """
    if len(failures) < FAILURES:
        return Plan()
    recent = failures[-FAILURES:]
    phases = {each.phase for each in recent}
    why = recent[-1].why
    if phases == {Phase.OUTBOX}:
        stubborn = len(failures) > FAILURES and failures[-FAILURES - 1].phase is Phase.OUTBOX
        spool = Spool.EMPTY if stubborn else Spool.SALVAGE
        return Plan(spool=spool, why=(f"the outbox was set aside: {why}",))
    if phases == {Phase.MODEL}:
        named = {each.subject for each in recent if each.subject} or set(packages)
        sentences = tuple(f"the model package {each} was left out: {why}" for each in sorted(named))
        return Plan(models=frozenset(named), why=sentences)
    if good_differs:
        return Plan(
            good_configuration=True,
            why=(f"the configuration that ran well before is used again: {why}",),
        )
    return Plan()


def go_on(
    replaced: Replaced | None, *, good_there: bool, fingerprint: Callable[[str], str]
) -> Plan:
    """The plan of a start after safe mode: the same, less what has changed since."""
    if replaced is None:
        return Plan()
    models: Mapping[str, str] = replaced.models
    same = frozenset(
        package for package, print_ in models.items() if fingerprint(package) == print_
    )
    plan = Plan(good_configuration=replaced.good_configuration and good_there, models=same)
    if not plan.careful:
        return Plan()
    return Plan(plan.good_configuration, plan.models, why=replaced.reasons)


def both(first: Plan, second: Plan) -> Plan:
    """All that either leaves out."""
    return Plan(
        good_configuration=first.good_configuration or second.good_configuration,
        models=first.models | second.models,
        spool=second.spool if second.spool is not Spool.KEEP else first.spool,
        why=tuple(dict.fromkeys((*first.why, *second.why))),
    )
