"""Draws ``docs/state-machine.md`` from the code: ``python docs/draw_state_machine.py``.

The arrows come from two places. ``machine.NEXT_STATUS`` says what an event in the journal makes of
a run's status; the store rules say what an operation makes of its row. The rules are asked for
every status, so an arrow that the code does not take cannot be drawn. Everything between the page's
two markers is replaced; ``tests/docs/test_state_machine.py`` fails while it is not up to date.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from pyrula_core.machine import NEXT_STATUS
from pyrula_core.model import ENDED, Controls, RunKey, RunKind, RunRow, RunStatus
from pyrula_core.ports import Append, Claim, Create, Patch, Post
from pyrula_core.stores import rules

PAGE = Path(__file__).with_name("state-machine.md")
BEGIN = "<!-- drawn by docs/draw_state_machine.py: begin -->"
END = "<!-- drawn by docs/draw_state_machine.py: end -->"

NOW = 1000.0
KEY = RunKey("workflow", "run")
STORED = [status for status in RunStatus if status is not RunStatus.PAUSED]
Arrow = tuple[str, str, str]


def row_with(status: RunStatus, **fields: object) -> RunRow:
    """Return a run's row with that status, held by an owner where it is running."""
    owner = "worker" if status is RunStatus.RUNNING else None
    row = RunRow(KEY, RunKind.WORKFLOW, "1", "run", status, 1, 1, NOW, NOW, owner=owner)
    return replace(row, **fields)  # type: ignore[arg-type]


def events_for(status: RunStatus) -> str:
    """Return the events that bring a run to a status, as the journal's table has them."""
    return " or ".join(kind.value for kind, after in NEXT_STATUS.items() if after is status)


def created() -> Iterator[Arrow]:
    """Yield where a new run begins."""
    for owner in (None, "worker"):
        op = Create(KEY, RunKind.WORKFLOW, "1", "run", (b"",), claim_owner=owner)
        status = rules.new_row(op, epoch_floor=0, now=NOW).status
        yield "[*]", str(status), "create" if owner is None else "create and claim"


def claimed() -> Iterator[Arrow]:
    """Yield from where a run can be claimed, and what has to be so."""
    op = Claim("worker", 30.0, b"", b"", KEY)
    conditions = {
        "claim": {},
        "claim, wake_at reached": {"wake_at": NOW - 1},
        "claim, lease run out": {"lease_until": NOW - 1},
    }
    for status in STORED:
        for label, fields in conditions.items():
            row = row_with(status, **({"lease_until": NOW + 1} | fields))
            ready = rules.ready_at(row, before=None, now=NOW)
            if rules.judge_claim(row, ready=ready, now=NOW):
                yield str(status), str(rules.after_claim(row, op, now=NOW).status), label
                break


def appended() -> Iterator[Arrow]:
    """Yield what a run's owner can make of it."""
    for status in STORED:
        row = row_with(status)
        for wanted in STORED:
            op = Append(KEY, row.epoch, row.seq, (b"",), Patch(status=wanted, release=True))
            if wanted is not status and rules.judge_append(row, op) is None:
                after = rules.after_append(row, op, now=NOW).status
                label = events_for(after) if after in ENDED else "lease given back"
                yield str(status), str(after), label


def posted() -> Iterator[Arrow]:
    """Yield what others can make of a run."""
    for status in STORED:
        row = row_with(status)
        op = Post(KEY, (b"",), wake=True)
        if rules.judge_post(row, op, guard_seq=None) is None:
            after = rules.after_post(row, op, now=NOW).status
            if after is not status:
                yield str(status), str(after), "post that wakes"


def diagram() -> str:
    """Return the mermaid diagram."""
    arrows = [*created(), *claimed(), *appended(), *posted()]
    arrows += [(str(status), "[*]", "") for status in STORED if status.ended]
    lines = [f"    {a} --> {b}" + (f": {label}" if label else "") for a, b, label in arrows]
    # A colon ends a label in mermaid, so the names of events are written with its entity.
    text = [line if ": " not in line else escaped(line) for line in lines]
    return "\n".join(["```mermaid", "stateDiagram-v2", *text, "```"])


def escaped(line: str) -> str:
    """Return a line whose label holds no bare colon."""
    head, mark, label = line.partition(": ")
    return head + mark + label.replace(":", "#58;")


def journal_table() -> str:
    """Return what an event makes of a run's status."""
    rows = [f"| `{kind}` | {status} |" for kind, status in NEXT_STATUS.items()]
    return "\n".join(["| event | status after it |", "|---|---|", *rows])


def control_table() -> str:
    """Return what the controls make of each status: what is shown, and whether it is claimed."""
    lines = [
        "| stored status | shown while paused | may be claimed | while paused | while cancelled |",
        "|---|---|---|---|---|",
    ]
    cases = (Controls(), Controls(pause=True), Controls(pause=True, cancel=True))
    for status in STORED:
        shown = row_with(status, controls=Controls(pause=True)).shown_status
        answers = " | ".join(claimable(status, controls) for controls in cases)
        lines.append(f"| {status} | {shown} | {answers} |")
    return "\n".join(lines)


def claimable(status: RunStatus, controls: Controls) -> str:
    """Return when a run of that status may be claimed under these controls."""
    due = {
        "at once": row_with(status, controls=controls, lease_until=NOW + 1),
        "when its wake_at has come": row_with(
            status, controls=controls, lease_until=NOW + 1, wake_at=NOW - 1
        ),
        "when its lease has run out": row_with(status, controls=controls, lease_until=NOW - 1),
    }
    for words, row in due.items():
        ready = rules.ready_at(row, before=None, now=NOW)
        if rules.judge_claim(row, ready=ready, now=NOW):
            return words
    return "no"


def drawn() -> str:
    """Return what stands between the markers."""
    return f"""{BEGIN}

{diagram()}

What the journal says (`machine.NEXT_STATUS`; an event that is not listed changes no status):

{journal_table()}

What a request to pause or to cancel makes of a status (the store rules):

{control_table()}

{END}"""


def page_with(drawing: str, page: str) -> str:
    """Return the page with its drawing replaced; raises ValueError without the two markers."""
    head, found, rest = page.partition(BEGIN)
    _, closed, tail = rest.partition(END)
    if not (found and closed):
        raise ValueError(f"{PAGE.name} has lost its markers {BEGIN!r} and {END!r}")
    return head + drawing + tail


if __name__ == "__main__":
    PAGE.write_text(page_with(drawn(), PAGE.read_text("utf-8")), "utf-8")
