"""The budgets of the classes, from the configuration."""

from __future__ import annotations

from typing import Final

from contract.status import RowClass
from edge_agent.outbox.retention import SHED_ORDER, Budgets
from edge_agent.settings import BudgetSettings


def budgets_of(settings: BudgetSettings) -> Budgets:
    """The budgets that the configuration gives."""
    shares: dict[RowClass, float] = {}
    max_age_s: dict[RowClass, float] = {}
    for kind in SHED_ORDER:
        budget = settings.of(kind.value)
        shares[kind] = budget.share
        if budget.max_age_s is not None:
            max_age_s[kind] = budget.max_age_s
    return Budgets(shares, max_age_s)


DEFAULT_BUDGETS: Final = budgets_of(BudgetSettings())
