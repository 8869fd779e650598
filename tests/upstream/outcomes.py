"""What became of each test, and how two runs of a suite differ. Pure, but for reading files."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

__all__ = ["Comparison", "Outcomes", "compare", "expected_reasons", "table"]

EXPECTED = Path(__file__).with_name("expected.json")

Outcomes = Mapping[str, Mapping[str, str]]
"""By test id: ``outcome`` (failed, passed or skipped) and ``message``, its first line."""


@dataclass(frozen=True, slots=True)
class Comparison:
    """A run beside the plain one: ``new`` fails only here; ``expected`` does too, with a reason.

    ``unsteady`` failed at first and passed when run again alone. ``lost`` was not run here.
    ``stale`` is expected to fail and did not.
    """

    suite: str
    mode: str
    counts: Counter[str]
    new: dict[str, str] = field(default_factory=dict)
    expected: dict[str, str] = field(default_factory=dict)
    unsteady: dict[str, str] = field(default_factory=dict)
    lost: list[str] = field(default_factory=list)
    stale: list[str] = field(default_factory=list)

    @property
    def passed(self) -> bool:
        """Tell whether the run differs from the plain one only where that has a reason."""
        return not (self.new or self.lost or self.stale)


def failures(outcomes: Outcomes) -> dict[str, str]:
    """Return the messages of the tests that failed."""
    return {test: each["message"] for test, each in outcomes.items() if each["outcome"] == "failed"}


def compare(
    suite: str,
    mode: str,
    *,
    plain: Outcomes,
    here: Outcomes,
    again: Outcomes | None = None,
    reasons: Mapping[str, str] | None = None,
) -> Comparison:
    """Return how a run differs from the plain one; ``again`` is the second try of its failures."""
    reasons = reasons or {}
    broken = {test: said for test, said in failures(here).items() if test not in failures(plain)}
    expected = {test: why for test in broken if (why := reason_of(test, reasons)) is not None}
    unsteady = {
        test: said
        for test, said in broken.items()
        if test not in expected and again and again.get(test, {}).get("outcome") == "passed"
    }
    used = {name for test in expected for name in names_of(test)}
    return Comparison(
        suite,
        mode,
        Counter(each["outcome"] for each in here.values()),
        new={t: said for t, said in broken.items() if t not in expected and t not in unsteady},
        expected=expected,
        unsteady=unsteady,
        lost=sorted(set(plain) - set(here)),
        stale=sorted(name for name in reasons if name not in used and is_among(name, here)),
    )


def names_of(test: str) -> tuple[str, str]:
    """Return a test's id and its id without parameters: a reason may stand under either."""
    return test, test.partition("[")[0]


def reason_of(test: str, reasons: Mapping[str, str]) -> str | None:
    """Return why a test may fail, None where there is no reason."""
    return next((reasons[name] for name in names_of(test) if name in reasons), None)


def is_among(name: str, tests: Iterable[str]) -> bool:
    """Tell whether a test of this id, with any parameters, was run."""
    return any(name in names_of(test) for test in tests)


def expected_reasons(suite: str, mode: str) -> dict[str, str]:
    """Return the reasons of the failures that are expected in a mode of a suite."""
    groups: list[dict[str, Any]] = json.loads(EXPECTED.read_text("utf-8"))
    return {
        test: group["reason"]
        for group in groups
        if group["suite"] == suite and mode in group["modes"]
        for test in group["tests"]
    }


def table(comparisons: Iterable[Comparison]) -> str:
    """Return a Markdown table of runs, and below it what is new in each."""
    rows = [
        "| suite | mode | failed | passed | skipped | new | expected | unsteady |",
        "|---|---|---:|---:|---:|---:|---:|---:|",
    ]
    notes: list[str] = []
    for run in comparisons:
        counted = " | ".join(str(run.counts[each]) for each in ("failed", "passed", "skipped"))
        ours = " | ".join(str(len(each)) for each in (run.new, run.expected, run.unsteady))
        rows.append(f"| {run.suite} | {run.mode} | {counted} | {ours} |")
        for heading, tests in (
            ("new failures", run.new),
            ("passed when run again alone", run.unsteady),
            ("not run here", dict.fromkeys(run.lost, "")),
            ("expected to fail, and did not", dict.fromkeys(run.stale, "")),
        ):
            if tests:
                notes.append(f"\n{run.suite}, {run.mode}: {heading}")
                notes += [f"  {test}  {said}".rstrip() for test, said in sorted(tests.items())]
    return "\n".join(rows + notes)
