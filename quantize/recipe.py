"""Runs a family's recipe: a Python file of this repository with a function `plan() -> FamilyPlan`."""

from __future__ import annotations

import importlib.util
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import msgspec

from contract.scoring import judge
from quantize.build import BuiltPackage, build
from quantize.errors import InputError
from quantize.fidelity import gate_problems
from quantize.package import (
    Package,
    package_problems,
    read_package,
    same_package,
    write_package,
)
from quantize.plan import FamilyPlan
from quantize.variants import features_of

RECIPE: Final = "recipe.py"
PACKAGE: Final = "package"
REPORT: Final = "report.json"


@dataclass(frozen=True, slots=True)
class CheckResult:
    """What a check of a built package found: problems (none means it may be used), figures, and whether a
    rebuild on this machine gives the same bytes (another CPU or library version may not).
    """

    problems: list[str]
    figures: dict[str, float]
    identical: bool


def load_plan(family: Path) -> FamilyPlan:
    """Returns the plan of the recipe in a family's folder; raises InputError if there is none."""
    path = family / RECIPE
    if not path.is_file():
        raise InputError(f"{family} has no {RECIPE}; name a folder of models/")
    spec = importlib.util.spec_from_file_location(f"recipe_{family.name.replace('-', '_')}", path)
    if spec is None or spec.loader is None:
        raise InputError(f"{path} cannot be loaded")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    plan = getattr(module, "plan", None)
    if not callable(plan):
        raise InputError(f"{path} has no function plan()")
    made = plan()
    if not isinstance(made, FamilyPlan):
        raise InputError(f"{path}: plan() returned {type(made).__name__}, not a FamilyPlan")
    return made


def make(family: Path) -> BuiltPackage:
    """Builds the family's package into `package/` and `report.json` beside it; returns what was written."""
    built = build(load_plan(family))
    write_package(family / PACKAGE, manifest=built.manifest, blobs=built.blobs)
    report = msgspec.json.format(msgspec.json.encode(built.report), indent=2)
    (family / REPORT).write_bytes(report + b"\n")
    return built


def check(family: Path) -> CheckResult:
    """Checks the built package as it lies there: hashes, golden vectors, gates on the recipe's evaluation data.

    Raises PackageError if it cannot even be read. Writes nothing into the family's folder.
    """
    plan = load_plan(family)
    package = read_package(family / PACKAGE)
    problems = package_problems(package)
    if package.manifest.features != plan.features:
        problems.append("the package's features are not the recipe's: rebuild it")
    figures = _measured(plan, package)
    gates = [gate for gate in plan.gates if gate.figure in figures]
    problems += gate_problems(gates, figures)
    return CheckResult(problems=problems, figures=figures, identical=_identical(plan, package))


def _measured(plan: FamilyPlan, package: Package) -> dict[str, float]:
    features = features_of(plan).evaluation
    figures: dict[str, float] = {}
    for variant in package.manifest.variants:
        output = package.runner(variant)(features)
        measured = plan.evaluate(judge(variant, features=features, output=output))
        figures |= {f"{variant.name}.{name}": value for name, value in measured.items()}
    return figures


def _identical(plan: FamilyPlan, package: Package) -> bool:
    built = build(plan)
    with tempfile.TemporaryDirectory() as folder:
        write_package(Path(folder), manifest=built.manifest, blobs=built.blobs)
        return same_package(package, read_package(Path(folder)))
