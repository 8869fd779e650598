"""Runs a suite in one mode in a process of its own, and compares what came of it."""

from __future__ import annotations

import hashlib
import json
import os
import signal
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from tests.upstream.outcomes import Comparison, Outcomes, compare, expected_reasons
from tests.upstream.suites import Unavailable
from tests.upstream.workbench import Workbench

__all__ = ["compared", "measured", "run"]

REPOSITORY = Path(__file__).resolve().parents[2]
PLUGIN = Path(__file__).with_name("plugin")

suite_seconds_max = 3600
test_seconds_max = 120
again_max = 60
tries_max = 3

SURROUNDINGS = {
    "NO_DOCKER": "true",  # no Postgres, no Redis
    "LANGSMITH_TRACING": "false",
    "LANGCHAIN_TRACING_V2": "false",
    "PYTHONPATH": os.pathsep.join((str(PLUGIN), str(REPOSITORY))),
}

# pytest's own exit codes: all passed, some failed, none selected.
ORDERLY = {0, 1, 5}


def run(
    bench: Workbench,
    mode: str,
    *,
    paths: Sequence[str] = (),
    select: str = "",
    workers: int = 2,
    seconds_max: float = suite_seconds_max,
) -> Outcomes:
    """Return what becomes of a suite's tests in a mode; ``paths`` are files or test ids.

    Raises Unavailable when the suite cannot even be collected, or does not end.
    """
    with tempfile.TemporaryDirectory() as folder:
        results = Path(folder) / "outcomes.json"
        command = [str(bench.python), "-m", "pytest", "-p", "pyrula_upstream", "-q"]
        command += ["-p", "no:cacheprovider", "--timeout", str(test_seconds_max)]
        command += ["-n", str(workers)] if workers > 1 else []
        command += ["-k", select] if select else []
        kept = {k: v for k, v in os.environ.items() if not k.startswith(("PYTEST_", "PYRULA_"))}
        kept |= SURROUNDINGS
        kept |= {"PYRULA_UPSTREAM_MODE": mode, "PYRULA_UPSTREAM_RESULTS": str(results)}
        # A session of its own: the workers end with it.
        with subprocess.Popen(
            [*command, *(paths or bench.suite.paths)],
            cwd=bench.sources,
            env=kept,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        ) as process:
            try:
                said, _ = process.communicate(timeout=seconds_max)
            except BaseException as error:
                os.killpg(process.pid, signal.SIGKILL)
                if isinstance(error, subprocess.TimeoutExpired):
                    raise Unavailable(f"{bench.suite.name} did not end: {seconds_max} s") from None
                raise
        if process.returncode not in ORDERLY or not results.exists():
            raise Unavailable(f"{bench.suite.name} did not run:\n{said[-4000:]}")
        outcomes: Outcomes = json.loads(results.read_text("utf-8"))
        return outcomes


def measured(
    bench: Workbench, mode: str, *, select: str = "", workers: int = 2, fresh: bool = True
) -> Outcomes:
    """Return ``run``'s outcomes and keep them; unless ``fresh``, those of the last time."""
    chosen = hashlib.sha256(select.encode()).hexdigest()[:8] if select else "all"
    kept = bench.sources.parent / f"{mode}-{chosen}.json"
    if not fresh and kept.exists():
        outcomes: Outcomes = json.loads(kept.read_text("utf-8"))
        return outcomes
    outcomes = run(bench, mode, select=select, workers=workers)
    kept.write_text(json.dumps(outcomes, indent=1), "utf-8")
    return outcomes


def compared(bench: Workbench, mode: str, *, plain: Outcomes, here: Outcomes) -> Comparison:
    """Return how a run differs from the plain one; new failures are tried again, alone.

    The suites hold tests of milliseconds and of reference counts, which a busy machine fails.
    """
    reasons = expected_reasons(bench.suite.name, mode)
    again: dict[str, Mapping[str, str]] = {}
    for _ in range(tries_max):
        found = compare(
            bench.suite.name, mode, plain=plain, here=here, again=again, reasons=reasons
        )
        if not 0 < len(found.new) <= again_max:
            break
        again |= run(bench, mode, paths=sorted(found.new), workers=1)
    return compare(bench.suite.name, mode, plain=plain, here=here, again=again, reasons=reasons)
