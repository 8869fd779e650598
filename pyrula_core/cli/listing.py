"""``pyrula runs list``: a page of runs.

Reads rows only, never a journal, so that it answers at once for a store of any size.
"""

from __future__ import annotations

from typing import Final

import click

from pyrula_core.cli.documents import row_document
from pyrula_core.cli.invocation import Invocation, pass_invocation
from pyrula_core.cli.options import common_options, examples
from pyrula_core.cli.owner import owner_alive
from pyrula_core.cli.table import Column, draw
from pyrula_core.cli.text import age, to_json
from pyrula_core.model import RunRow, RunStatus
from pyrula_core.ports import ListRuns, Now, RunPage

__all__ = ["STATUS_STYLES", "list_runs"]

page_rows_max: Final = 1000

STATUS_STYLES: Final = {
    "running": "cyan",
    "running (owner dead)": "bold red",
    "interrupted": "magenta",
    "paused": "yellow",
    "complete": "green",
    "error": "red",
    "cancelled": "dim",
}
COLUMNS: Final = (
    Column("RUN ID", wraps=True),
    Column("NAME", wraps=True),
    Column("KIND"),
    Column("STATUS", styles=STATUS_STYLES),
    Column("VERSION"),
    Column("EVENTS", right=True),
    Column("AGE", right=True),
    Column("ERROR", wraps=True),
)


@click.command(
    "list",
    epilog=examples(
        "pyrula runs list",
        "pyrula runs list --name sync --status error --status interrupted",
        "pyrula runs list --limit 500 --json",
    ),
)
@click.option("--name", metavar="NAME", help="Only runs of this workflow or agent.")
@click.option(
    "--status",
    "statuses",
    multiple=True,
    type=click.Choice([status.value for status in RunStatus]),
    help="Only runs of this status; may be given several times.",
)
@click.option(
    "--limit", type=click.IntRange(1, page_rows_max), default=50, show_default=True, metavar="N"
)
@click.option("--cursor", metavar="CURSOR", help="Where the page before ended; it says so itself.")
@common_options
@pass_invocation
def list_runs(
    invocation: Invocation,
    name: str | None,
    statuses: tuple[str, ...],
    limit: int,
    cursor: str | None,
) -> None:
    """List runs, newest first.

    AGE is the time since a run was created, EVENTS the length of its journal, ERROR its code and
    the code its exception carried. --json prints {"runs": [...], "cursor": TEXT or null}.
    """
    wanted = frozenset(RunStatus(status) for status in statuses)
    query = ListRuns(name=name, statuses=wanted, limit=limit, cursor=cursor)
    with invocation.open() as store:
        page = store.submit(query).result()
        now = store.submit(Now()).result()
        where = f"{store.url}, namespace {invocation.namespace!r}"
    if invocation.as_json:
        runs = [row_document(row) for row in page.rows]
        click.echo(to_json({"runs": runs, "cursor": page.cursor}))
    elif page.rows:
        print_page(page, now)
    else:
        narrowed = name is not None or statuses or cursor is not None
        found = "No run matches" if narrowed else "There are no runs yet"
        click.echo(f"{found} in {where}.", err=True)


def print_page(page: RunPage, now: float) -> None:
    """Print rows, and how to see the next ones."""
    draw(COLUMNS, [cells(row, now) for row in page.rows])
    if page.cursor is not None:
        click.echo(f"There are more: add --cursor {page.cursor}", err=True)


def status_text(row: RunRow) -> str:
    """Return the status; of a running run also that nobody is left to run it."""
    lost = row.shown_status is RunStatus.RUNNING and owner_alive(row.owner) is False
    return f"{row.shown_status} (owner dead)" if lost else str(row.shown_status)


def cells(row: RunRow, now: float) -> list[str]:
    """Return a run's line of the table."""
    return [
        row.key.run_id,
        row.key.name,
        str(row.kind),
        status_text(row),
        row.version,
        str(row.seq),
        age(now - row.created_at),
        " ".join(code for code in (row.error_code, row.user_code) if code),
    ]
