"""The long form: every crash, every pair of crashes, and a swarm of seeds, as one command.

    python -m tests.simulation --pairs --seeds 1000
    python -m tests.simulation --store sqlite
    python -m tests.simulation --workload saga --seed 7 --only crash_after@3,lost@5

Prints a report with seeds, counts and, for each violation, the line that shows it again; ends with
exit code 1 when there was one.
"""

from __future__ import annotations

import argparse
import logging
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from pyrula_core.testing.explore import Report, explore_only, explore_scenario, swarm
from pyrula_core.testing.faults import FaultKind
from tests.simulation.storages import sqlite_factory
from tests.simulation.workloads import LONG, WORKLOADS, Workload

AGAIN = "python -m tests.simulation --workload {name} --seed {seed} --only {faults}"
CROWD = {"workers": 2, "latency": 0.01}
REPORTED = {FaultKind.CRASH_TORN, FaultKind.ROLLED_BACK}


def arguments() -> argparse.Namespace:
    """Return what the command line asks for."""
    parser = argparse.ArgumentParser(description=__doc__, prog="python -m tests.simulation")
    parser.add_argument("--workload", action="append", choices=[*WORKLOADS, "long"])
    parser.add_argument("--store", choices=["memory", "sqlite"], default="memory")
    parser.add_argument("--pairs", action="store_true", help="every pair of crashes as well")
    parser.add_argument("--every", type=int, default=1, help="only each n-th pair")
    parser.add_argument("--seeds", type=int, default=0, help="how many seeds to draw faults from")
    parser.add_argument("--seed", type=int, default=0, help="the first seed")
    parser.add_argument("--only", help="one case, as a report shows it")
    parser.add_argument("--crowd", action="store_true", help="with --only: as with --seeds")
    return parser.parse_args()


def reports(workload: Workload, asked: argparse.Namespace) -> Iterator[Report]:
    """Yield the reports that were asked for of one workload."""
    scenario, allowed, seed = workload.scenario, workload.allowed, asked.seed
    again = AGAIN if asked.store == "memory" else f"{AGAIN} --store {asked.store}"
    if asked.only is not None:
        again += " --crowd" if asked.crowd else ""
        crowded = replace(scenario, **CROWD) if asked.crowd else scenario
        yield explore_only(crowded, asked.only, seed=seed, allowed=allowed, reproduce=again)
        return
    yield explore_scenario(
        scenario,
        pairs=asked.pairs,
        every=asked.every,
        seed=seed,
        allowed=allowed,
        reproduce=again,
    )
    if asked.seeds:
        kinds = [kind for kind in FaultKind if kind not in REPORTED]
        seeds = range(seed, seed + asked.seeds)
        crowd = f"{again} --crowd"
        yield swarm(scenario, seeds, kinds=kinds, allowed=allowed, reproduce=crowd, **CROWD)


def chosen(asked: argparse.Namespace, folder: Path) -> Iterator[Workload]:
    """Yield the workloads that were asked for, on the store that was asked for."""
    known = {**WORKLOADS, "long": LONG}
    for name in asked.workload or WORKLOADS:
        workload = known[name]
        if asked.store == "sqlite":
            factory = sqlite_factory(folder / f"{name}.db")
            workload = replace(workload, scenario=replace(workload.scenario, store_factory=factory))
        yield workload


def main() -> int:
    """Run what was asked for and say what came of it."""
    asked = arguments()
    logging.disable(logging.CRITICAL)
    began, cases, violations = time.monotonic(), 0, 0
    hits: Counter[FaultKind] = Counter()
    with tempfile.TemporaryDirectory() as folder:
        for workload in chosen(asked, Path(folder)):
            for report in reports(workload, asked):
                print(report, flush=True)
                cases, violations = cases + report.cases, violations + len(report.violations)
                hits.update(report.hits)
    struck = ", ".join(f"{kind} {count}" for kind, count in sorted(hits.items()))
    print(f"all: {cases} cases in {time.monotonic() - began:.0f} s, {violations} violations")
    print(f"all hits: {struck or 'none'}; first seed {asked.seed}, store {asked.store}")
    return 1 if violations else 0


if __name__ == "__main__":
    sys.exit(main())
