"""``pyrula runs show``: one run, its error, its open questions and its journal.

Reads the journal as it is stored. Must never run the code that the run executes, nor import it
unless ``--app`` names it.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import click

from pyrula_core.cli.application import codec_in, foreign_codec
from pyrula_core.cli.documents import event_document, run_document
from pyrula_core.cli.finding import find_run
from pyrula_core.cli.invocation import Invocation, pass_invocation
from pyrula_core.cli.notes import key_of, note_of
from pyrula_core.cli.options import app_option, common_options, examples, run_argument
from pyrula_core.cli.owner import owner_text
from pyrula_core.cli.payloads import PLAIN_JSON
from pyrula_core.cli.table import Column, draw
from pyrula_core.cli.text import age, moment, one_line, printable, size, to_json
from pyrula_core.codec import decode
from pyrula_core.errors import JournalError, RunNotFoundError
from pyrula_core.events import Event
from pyrula_core.machine import fold
from pyrula_core.model import Capture, RunRow
from pyrula_core.ports import Head, Now, ReadEvents, Store

if TYPE_CHECKING:
    from pyrula_core.values import ValueCodec

__all__ = ["show_run"]

events_shown: Final = 20
label_width: Final = 12

COLUMNS: Final = (
    Column("SEQ", right=True),
    Column("TIME"),
    Column("TYPE"),
    Column("KEY", wraps=True),
    Column("NOTE", wraps=True),
)


@click.command(
    "show",
    epilog=examples(
        "pyrula runs show run-1",
        "pyrula runs show run-1 --name sync --events --capture full",
        "pyrula runs show sync/run-1 --json --events",
        "pyrula runs show chat-7 --app my_agent --store sqlite:///runs.db",
    ),
)
@run_argument
@click.option("--events", "all_events", is_flag=True, help="Show the whole journal, not its end.")
@click.option(
    "--capture",
    type=click.Choice([level.value for level in Capture]),
    default=Capture.REDACTED.value,
    show_default=True,
    help="How much to show of recorded values: codec and size (none), types and sizes (shape), "
    "these and open questions and messages (redacted), or everything (full).",
)
@app_option
@common_options
@pass_invocation
def show_run(
    invocation: Invocation,
    run_id: str,
    name: str | None,
    *,
    all_events: bool,
    capture: str,
    app: str | None,
) -> None:
    """Show a run: where it stands, why it failed, what it asks, and its journal.

    The values of a wrapped graph's run, its questions among them, are read with --app.

    --json prints {"run": {...}}, with --events also {"events": [...]}.
    """
    level = Capture(capture)
    with invocation.open() as store:
        row, events = read_run(store, find_run(store, run_id, name))
        now = store.submit(Now()).result()
    codec = None if app is None else codec_in(app, row, events)
    run = run_document(row, fold(events), events, level, codec)
    if invocation.as_json:
        shown = [event_document(event, level, codec) for event in events] if all_events else None
        click.echo(to_json({"run": run} | ({} if shown is None else {"events": shown})))
        return
    graph = foreign_codec(events) is not None
    answering = Answering(invocation.options, app, graph=graph)
    for label, text in summary(run, now, answering):
        click.echo(f"{label:<{label_width}}{printable(text)}".rstrip())
    print_traceback(run["error"])
    print_journal(events, level, codec, all_events=all_events)


def read_run(store: Store, found: RunRow) -> tuple[RunRow, list[Event]]:
    """Return a run's row and journal; raises JournalError when an event is damaged.

    The row is read after the journal: it may be newer, but never tells less.
    """
    frames = store.submit(ReadEvents(found.key)).result()
    row = store.submit(Head(found.key)).result()
    if row is None:
        raise RunNotFoundError(f"run {found.key} was deleted just now")
    if not frames:
        raise JournalError(f"run {found.key} has no events: its journal is gone")
    return row, [decode(frame, key=found.key, seq=seq) for seq, frame in frames]


Lines = Iterator[tuple[str, str]]


@dataclass(frozen=True, slots=True)
class Answering:
    """What a command that answers has to say beside the question: the store and the module.

    ``graph`` is True for the run of a wrapped graph, whose answers need the module.
    """

    options: Sequence[str]
    app: str | None
    graph: bool

    def lines(self, question: Mapping[str, Any], run: Mapping[str, Any]) -> Lines:
        """Yield the command that answers a question, as it can be typed, and what to put in."""
        app = ["--app", self.app or "MODULE"] if self.graph or self.app else []
        place = [f"{run['name']}/{run['run_id']}", question["id"]]
        words = ["pyrula", "runs", "answer", *place, "JSON", *self.options, *app]
        yield "", shlex.join(words)
        yield "", "JSON is the answer: true, 42, '\"yes\"', '{\"approved\": true}'"
        if self.graph and self.app is None:
            yield "", "MODULE is the Python module that calls durable() for this graph"


def summary(run: Mapping[str, Any], now: float, answering: Answering) -> Lines:
    """Yield labels and texts of what is known of a run; what is absent is left out."""
    yield "run", f"{run['name']}/{run['run_id']}"
    yield "status", status_text(run)
    yield "kind", f"{run['kind']}, version {run['version']}"
    for label in ("created", "updated"):
        at = run[f"{label}_at"]
        yield label, f"{moment(at)} ({age(now - at)} ago)"
    if run["wake_at"] is not None:
        yield "wakes", moment(run["wake_at"])
    for label in ("thread", "parent", "continued_to"):
        if run[label] is not None:
            yield label.replace("_", " "), str(run[label])
    if run["owner"] is not None:
        dead = " (dead)" if run["owner_alive"] is False else ""
        yield "owner", f"{owner_text(run['owner'])}{dead}"
    yield "attempts", attempts_text(run)
    yield "steps", f"{run['steps']} recorded, {run['seq']} events in all"
    if run["error"] is not None:
        yield from error_lines(run["error"])
    for question in run["interrupts"]:
        yield from question_lines(question)
        yield from answering.lines(question, run)


def status_text(run: Mapping[str, Any]) -> str:
    """Return the status with what has been asked of the run and is not done yet."""
    asked = [
        f"{what} requested"
        for what, done in (("pause", "paused"), ("cancel", "cancelled"))
        if run[f"{what}_requested"] and run["status"] != done
    ]
    return ", ".join([run["status"], *asked])


def attempts_text(run: Mapping[str, Any]) -> str:
    """Return how often a run was claimed and why it went back."""
    reasons = ", ".join(f"{reason} {count}" for reason, count in sorted(run["requeues"].items()))
    requeued = sum(run["requeues"].values())
    return f"claimed {run['attempts']}, requeued {requeued}" + (f" ({reasons})" if reasons else "")


def error_lines(error: Mapping[str, Any]) -> Lines:
    """Yield why a run failed."""
    yield "error", f"code {error['code']}"
    if error["user_code"]:
        yield "", f"user code {error['user_code']}"
    yield "", ": ".join(text for text in (error["error_type"], error["message"]) if text)
    if error["detail"]:
        yield "", f"detail {one_line(error['detail'])}"


def question_lines(question: Mapping[str, Any]) -> Lines:
    """Yield an open question."""
    yield "question", question["id"]
    yield "", f"asked by {question['node'] or question['key']} at {moment(question['opened_at'])}"
    asked = question["question"]
    if asked is not None:
        shown = one_line(asked["value"]) if "value" in asked else asked.get("shape")
        yield "", shown or unread(asked)
    if question["response_schema"] is not None:
        yield "", f"schema {one_line(question['response_schema'])}"


def unread(asked: Mapping[str, Any]) -> str:
    """Return what is known of a question that was not read, and how to see it."""
    text = f"{asked['codec']}, {size(asked['bytes'])}"
    return text if asked["codec"] == PLAIN_JSON else f"{text}: add --app MODULE to read it"


def print_traceback(error: Mapping[str, Any] | None) -> None:
    """Print a recorded traceback, line by line, where the capture level left it in."""
    if error is not None and error["traceback"]:
        click.echo()
        for line in error["traceback"].splitlines():
            click.echo(printable(line))


def print_journal(
    events: Sequence[Event], capture: Capture, codec: ValueCodec | None, *, all_events: bool
) -> None:
    """Print the journal, or its end."""
    shown = events if all_events else events[-events_shown:]
    click.echo()
    draw(COLUMNS, [cells(event, capture, codec) for event in shown])
    if len(shown) < len(events):
        click.echo(f"The last {len(shown)} of {len(events)} events: --events shows all", err=True)


def cells(event: Event, capture: Capture, codec: ValueCodec | None) -> list[str]:
    """Return an event's line of the table."""
    note = note_of(event, capture, codec)
    return [str(event.seq), moment(event.at), str(event.type), key_of(event) or "", note]
