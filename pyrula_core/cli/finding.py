"""Finds the run that a person means by its id.

Must never guess: an id that several names have is an error that lists them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from pyrula_core.errors import CallerError, RunNotFoundError
from pyrula_core.model import RunKey, RunRow
from pyrula_core.ports import Head, ListRuns, Store

__all__ = ["find_run"]

page_rows: Final = 1000
names_shown_max: Final = 20


def find_run(store: Store, run_id: str, name: str | None) -> RunRow:
    """Return the run with that id, of that name where one is given; ``name/id`` works too.

    Raises RunNotFoundError, and CallerError with code ``run_ambiguous``.
    """
    if name is None and "/" in run_id:
        name, _, run_id = run_id.partition("/")
    if name is None:
        found = [row for row in every_run(store) if row.key.run_id == run_id]
    else:
        row = store.submit(Head(RunKey(name, run_id))).result()
        found = [] if row is None else [row]
    if not found:
        raise missing(store, run_id, name)
    if len(found) > 1:
        raise ambiguous(run_id, found)
    return found[0]


def every_run(store: Store) -> Iterator[RunRow]:
    """Yield every run of a store; an id may belong to any name."""
    cursor: str | None = None
    while True:
        page = store.submit(ListRuns(limit=page_rows, cursor=cursor)).result()
        yield from page.rows
        cursor = page.cursor
        if cursor is None:
            return


def missing(store: Store, run_id: str, name: str | None) -> RunNotFoundError:
    """Return the error for a run that is not there."""
    run = f"run {name}/{run_id}" if name else f"run with id {run_id!r}"
    return RunNotFoundError(
        f"there is no {run} in {store.url}",
        hint="Check id, store and namespace; 'pyrula runs list' shows what is there",
    )


def ambiguous(run_id: str, found: Sequence[RunRow]) -> CallerError:
    """Return the error that lists the names to choose from."""
    names = sorted(row.key.name for row in found)
    listed = ", ".join(names[:names_shown_max])
    return CallerError(
        f"{len(names)} runs have the id {run_id!r}, of these names: {listed}",
        hint=f"Say which one is meant: --name {names[0]}",
        code="run_ambiguous",
    )
