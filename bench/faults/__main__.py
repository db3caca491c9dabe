"""`python -m bench.faults`: runs the fault programme and prints what it found.

Exit code 0 only if every chosen drill was run and passed. Progress goes to stderr, and only on a terminal.
"""

from __future__ import annotations

import argparse
import json
import logging
import random
import signal
import sys
from pathlib import Path

import structlog

from bench.faults.drill import Tier
from bench.faults.registry import DRILLS, chosen
from bench.faults.running import progress, run_drills


def main(arguments: list[str] | None = None) -> int:
    """Runs the chosen drills; the seed is printed, and chosen by chance without --seed."""
    parser = argparse.ArgumentParser(prog="python -m bench.faults", description=__doc__)
    parser.add_argument("--tier", type=Tier, choices=list(Tier), default=Tier.CI)
    parser.add_argument("--only", metavar="IDS", help="F01,F11,…; all without it")
    parser.add_argument("--seed", type=int, help="makes a run again")
    parser.add_argument("--json", action="store_true", help="print JSON (and nothing else)")
    parser.add_argument("--report", type=Path, metavar="FILE", help="write the JSON here too")
    parser.add_argument("--keep", type=Path, metavar="FOLDER", help="keep the logs of failures")
    parser.add_argument("--list", action="store_true", help="print the drills")
    options = parser.parse_args(arguments)
    if options.list:
        print("\n".join(f"{drill.id}  {drill.name}" for drill in DRILLS))
        return 0
    try:
        drills = chosen(options.only)
    except ValueError as error:
        parser.error(str(error))
    # Asked to end, it takes away what it made, as on Ctrl-C: mounts and processes would stay otherwise.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    seed = random.randrange(1_000_000) if options.seed is None else options.seed
    report = run_drills(drills, tier=options.tier, seed=seed, say=progress, keep=options.keep)
    progress("")
    text = json.dumps(report.as_json(), indent=2)
    if options.report is not None:
        options.report.write_text(text + "\n", encoding="utf-8")
    print(text if options.json else "\n".join(report.lines()))
    return 0 if report.ok else 1


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # what drills started ends with us
    # What drills open of the product in this very process must not write between the lines.
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))
    sys.exit(main())
