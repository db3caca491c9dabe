"""The frame: what is run, what fails, what is told."""

import asyncio
import json
from pathlib import Path

import pytest

from bench.faults.__main__ import main
from bench.faults.drill import Drill, DrillContext, DrillResult, Tier
from bench.faults.lag import LagFigures
from bench.faults.ledger import Balance
from bench.faults.registry import DRILLS, chosen
from bench.faults.running import run_drills
from bench.stack import REPO


def quiet(_: str) -> None:
    pass


def a_drill(run, **about) -> Drill:
    return Drill(id="F99", name="made up", run=run, **about)


def report_of(*drills: Drill, seed: int = 1, keep: Path | None = None):
    return run_drills(drills, tier=Tier.CI, seed=seed, say=quiet, keep=keep)


async def fine(context: DrillContext) -> DrillResult:
    return DrillResult(repeats=context.repeats, balance=Balance(acknowledged=10, stored=10))


def test_a_drill_without_a_fault_passes_and_tells_its_figures():
    report = report_of(a_drill(fine))
    assert report.ok
    told = report.as_json()["drills"][0]
    assert told["pass"] is True
    assert (told["readings"], told["lost"], told["repeats"], told["why"]) == (10, 0, 5, "")


@pytest.mark.parametrize(
    "bad",
    [
        Balance(acknowledged=2, missing=1),
        Balance(duplicate=1),
        Balance(phantom=1),
        Balance(declared=1),
        Balance(order_errors=1),
        Balance(holes=1),
    ],
)
def test_a_drill_fails_by_its_ledgers_without_saying_so(bad: Balance):
    async def silent(_: DrillContext) -> DrillResult:
        return DrillResult(balance=bad)

    report = report_of(a_drill(silent))
    assert not report.ok
    assert report.as_json()["drills"][0]["why"]


@pytest.mark.parametrize(
    ("lag", "passes"),
    [
        (LagFigures(25.0, 50.0, 1.0, 1.0, 100), True),
        (LagFigures(0.0, 0.0, 1.0, 1.0, 0), False),
        (LagFigures(50.0, 100.0, 1.0, 1.0, 100), False),
        (LagFigures(50.0, 100.0, 49.0, 49.0, 100), False),
        (LagFigures(50.0, 100.0, 60.0, 1.0, 100), True),
        (LagFigures(50.0, 100.0, 1.0, 60.0, 100), True),
    ],
)
def test_a_held_up_loop_fails_a_drill_unless_the_machine_is_to_blame(lag: LagFigures, passes: bool):
    async def late(_: DrillContext) -> DrillResult:
        return DrillResult(lag=lag)

    assert report_of(a_drill(late)).ok is passes


def test_what_a_drill_expects_is_noted_and_does_not_stop_it():
    async def two_faults(_: DrillContext) -> DrillResult:
        result = DrillResult()
        result.expect([], "first")
        result.expect([1], "never")
        return result.within(5.1, 5.0, "recovery")

    why = report_of(a_drill(two_faults)).as_json()["drills"][0]["why"]
    assert why == "first; recovery took 5.1 s, allowed are 5"


def test_a_drill_that_raises_fails_with_its_reason_and_the_next_one_runs():
    async def broken(_: DrillContext) -> DrillResult:
        raise OSError("no such device")

    report = report_of(a_drill(broken), a_drill(fine))
    assert [entry.passed for entry in report.entries] == [False, True]
    assert "OSError at test_fault_programme.py" in report.entries[0].faults[0]
    assert "no such device" in report.entries[0].faults[0]


def test_a_drill_that_does_not_end_is_ended():
    async def endless(_: DrillContext) -> DrillResult:
        await asyncio.sleep(60)
        return DrillResult()

    report = report_of(a_drill(endless, ci_limit_s=0.1))
    assert report.entries[0].faults == ("not done within 0.1 s",)


def test_a_missing_program_is_a_failure_and_no_skip():
    report = report_of(a_drill(fine, needs=("no-such-program",)))
    assert not report.ok
    assert "no-such-program is missing" in report.entries[0].faults[0]


def test_no_drills_are_no_success():
    assert not report_of().ok


def test_the_seed_makes_a_drill_again():
    drawn: list[float] = []

    async def draws(context: DrillContext) -> DrillResult:
        drawn.append(context.rng.random())
        return DrillResult()

    for seed in (1, 1, 2):
        report_of(a_drill(draws), seed=seed)
    assert drawn[0] == drawn[1] != drawn[2]


def test_each_drill_has_an_empty_folder_that_is_gone_afterwards():
    folders: list[Path] = []

    async def looks(context: DrillContext) -> DrillResult:
        folders.append(context.folder)
        assert list(context.folder.iterdir()) == []
        (context.folder / "left").touch()
        return DrillResult()

    assert report_of(a_drill(looks), a_drill(looks)).ok
    assert folders[0] != folders[1]
    assert not folders[0].exists()


def test_logs_of_failures_are_kept_where_it_is_asked_for(tmp_path: Path):
    async def fails(context: DrillContext) -> DrillResult:
        (context.folder / "device").mkdir()
        (context.folder / "device" / "agent.log").write_text("said", encoding="utf-8")
        return DrillResult(faults=["wrong"])

    report_of(a_drill(fails), keep=tmp_path)
    assert (tmp_path / "F99" / "device" / "agent.log").read_text(encoding="utf-8") == "said"


def test_a_soak_has_the_counts_of_the_promises(tmp_path: Path):
    import random

    context = DrillContext(tmp_path, random.Random(1), Tier.SOAK)
    assert context.repeats == 100
    assert context.pick(ci=1, soak=2) == 2
    assert list(context.each(3)) == [0, 1, 2]


def test_the_sheet_says_how_to_run_a_failure_again():
    async def fails(_: DrillContext) -> DrillResult:
        return DrillResult(faults=["wrong"])

    text = "\n".join(report_of(a_drill(fails), seed=7).lines())
    assert "FAIL  F99" in text
    assert "python -m bench.faults --tier ci --seed 7 --only F99" in text


def test_drills_are_chosen_by_id_in_any_case_and_unknown_ones_are_refused(
    capsys: pytest.CaptureFixture[str],
):
    first = DRILLS[0]
    assert chosen(first.id.lower()) == (first,)
    assert chosen(None) == DRILLS
    with pytest.raises(SystemExit, match="2"):
        main(["--only", "F00"])
    assert "no drill F00" in capsys.readouterr().err


def test_the_list_names_every_drill(capsys: pytest.CaptureFixture[str]):
    assert main(["--list"]) == 0
    assert [line.split()[0] for line in capsys.readouterr().out.splitlines()] == [
        drill.id for drill in DRILLS
    ]


def test_the_report_is_json_for_machines(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
):
    monkeypatch.setattr("bench.faults.registry.DRILLS", (a_drill(fine),))
    code = main(["--json", "--seed", "3", "--report", str(tmp_path / "report.json")])
    told = json.loads(capsys.readouterr().out)
    assert code == 0
    assert (told["tier"], told["seed"], told["ok"]) == ("ci", 3, True)
    assert json.loads((tmp_path / "report.json").read_text(encoding="utf-8")) == told


def test_ids_are_never_given_twice():
    ids = [drill.id for drill in DRILLS]
    assert len(set(ids)) == len(ids)


def test_every_fault_of_the_promises_has_its_drill():
    promised = {*(f"F{number:02}" for number in range(1, 26)), "F27", "F31", "F32"}
    assert promised <= {drill.id for drill in DRILLS}


def test_the_page_about_the_programme_names_every_drill():
    page = (REPO / "docs/how-to/fault-programme.md").read_text(encoding="utf-8")
    assert [drill.id for drill in DRILLS if drill.id not in page] == []


def test_what_drills_need_is_installed_by_the_continuous_integration():
    script = (REPO / ".ci/run").read_text(encoding="utf-8")
    needed = {program for drill in DRILLS for program in drill.needs}
    ours = {"nats-server"}  # comes with the environment
    assert [each for each in sorted(needed - ours) if f"need {each} " not in script] == []
