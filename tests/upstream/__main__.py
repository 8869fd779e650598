"""Run LangGraph's own tests as they are and through Pyrula, and print where they differ.

    python -m tests.upstream [--suite langgraph] [--mode wrapped] [--select EXPR]

The sources are those of the installed versions. ``plain`` runs them as they are; ``wrapped`` with
every graph's nodes wrapped, as ``durable`` wraps them; ``saver`` with ``JournalSaver`` in place of
the suites' checkpointers. Exits with 1 when a run differs from the plain one without a reason in
``expected.json``, with 2 when a suite cannot be run here.
"""

from __future__ import annotations

import argparse
import sys

from tests.upstream.outcomes import Comparison, compare, table
from tests.upstream.running import compared, measured
from tests.upstream.suites import MODES, SUITES, Unavailable, cache_folder
from tests.upstream.workbench import prepare


def main() -> int:
    """Run what the command line names and return the exit code."""
    options = arguments()
    found: list[Comparison] = []
    try:
        for name in options.suite or SUITES:
            found += runs_of(name, options)
    except Unavailable as error:
        print(table(found))
        print(f"\ncannot be run here: {error}", file=sys.stderr)
        return 2
    print(table(found))
    print(f"\nEach test's outcome is kept in {cache_folder()}")
    return 0 if all(each.passed for each in found) else 1


def runs_of(name: str, options: argparse.Namespace) -> list[Comparison]:
    """Run one suite in every mode that was asked for."""
    modes = options.mode or MODES
    bench = prepare(SUITES[name])
    chosen = {"select": options.select, "workers": options.workers}
    fresh = options.fresh or "plain" in (options.mode or ())
    plain = measured(bench, "plain", fresh=fresh, **chosen)
    found = [compare(name, "plain", plain=plain, here=plain)]
    print(table(found), flush=True)
    for mode in (each for each in modes if each != "plain"):
        here = measured(bench, mode, **chosen)
        found.append(compared(bench, mode, plain=plain, here=here))
        print(table(found[-1:]), flush=True)
    return found


def arguments() -> argparse.Namespace:
    """Return the command line's options."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.upstream",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--suite", action="append", choices=tuple(SUITES), help="default: all")
    parser.add_argument("--mode", action="append", choices=MODES, help="default: all")
    parser.add_argument("--select", default="", help="run only tests that pytest -k would")
    parser.add_argument("--workers", type=int, default=2, help="processes (default: 2)")
    parser.add_argument("--fresh", action="store_true", help="run plain again, even if known")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
