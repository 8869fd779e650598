"""The proof at the end: what the journal, the ledger and the diary say, held against each other.

Owns what counts as proven. ``prove`` is pure and can be given evidence of any kind; ``gather``
reads it from a finished demo.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from pyrula_core import Client, Event, EventType, PyrulaError
from pyrula_langgraph.demo.diary import Execution, read_diary
from pyrula_langgraph.demo.effects import EffectKind, Entry
from pyrula_langgraph.demo.site import NAME, Site
from pyrula_langgraph.demo.tickets import Expected, load_expected
from pyrula_langgraph.demo.verify import Report, verify

__all__ = ["Check", "Counts", "Evidence", "Proof", "gather", "prove"]

READING = frozenset({EffectKind.LOOKUP, EffectKind.TRACKING})

Journals = Mapping[str, Sequence[Event]]


@dataclass(frozen=True, slots=True)
class Evidence:
    """What there is to judge by.

    ``journals`` holds the events of each ticket's run, by run id; ``tickets`` names the ticket of
    each run; ``expected`` is what each ticket has to cause, None where nobody knows it beforehand.
    """

    tickets: Mapping[str, str]
    journals: Journals
    entries: Sequence[Entry]
    executions: Sequence[Execution]
    expected: Mapping[str, Sequence[Expected]] | None = None


@dataclass(frozen=True, slots=True)
class Check:
    """One claim, the figure that supports it and every violation in words."""

    claim: str
    figure: str = ""
    violations: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Counts:
    """Attempts beside what came of them: execution is at least once, recording exactly once."""

    steps: int
    executions: int
    effects: int
    attempts: int
    lost_owners: int


@dataclass(frozen=True, slots=True)
class Proof:
    """The checks, in order, and the counts behind them."""

    checks: tuple[Check, ...]
    counts: Counts

    @property
    def ok(self) -> bool:
        """True when nothing is violated."""
        return not any(check.violations for check in self.checks)


async def gather(site: Site, client: Client) -> Evidence:
    """Read the evidence of a demo; a journal that cannot be read is empty, and so fails."""
    tickets = {site.run_id(ticket.ticket): ticket.ticket for ticket in site.tickets()}
    journals: dict[str, list[Event]] = {}
    for run_id in tickets:
        try:
            journals[run_id] = await client.history(NAME, run_id)
        except PyrulaError:
            journals[run_id] = []
    return Evidence(
        tickets,
        journals,
        site.ledger().entries(),
        read_diary(site.diary_file),
        load_expected() if site.foreseen else None,
    )


def prove(evidence: Evidence) -> Proof:
    """Check the evidence."""
    done, begun = recorded(evidence.journals), started(evidence)
    counts = count(evidence, done)
    again = tuple(ran_again(done, begun))
    complete = len(evidence.tickets) - len(list(unfinished(evidence)))
    return Proof(
        (
            Check(
                "every ticket is done",
                f"{complete} of {len(evidence.tickets)} runs complete",
                tuple(unfinished(evidence)),
            ),
            Check(
                "every step is recorded exactly once",
                f"{counts.steps} steps",
                tuple(not_recorded_once(done, begun)),
            ),
            Check(
                "no recorded step ran again",
                f"{len(again)} of {counts.executions} executions",
                again,
            ),
            *effects_proven(evidence, counts),
        ),
        counts,
    )


def count(evidence: Evidence, done: Mapping[str, list[float]]) -> Counts:
    """Count attempts and outcomes."""
    orphaned = (
        event.type is EventType.RUN_REQUEUED and event.data["reason"] == "owner_gone"
        for events in evidence.journals.values()
        for event in events
    )
    return Counts(
        steps=len(done),
        executions=len(evidence.executions),
        effects=sum(entry.effective for entry in evidence.entries),
        attempts=len(evidence.entries),
        lost_owners=sum(orphaned),
    )


# --- the journal ----------------------------------------------------------------------------------


def recorded(journals: Journals) -> Mapping[str, list[float]]:
    """Return, by idempotency key, when a step was recorded as done: a list of one, if all is well.

    The key is the one that the engine gives to the outside world: name, run and the step's own.
    """
    done: defaultdict[str, list[float]] = defaultdict(list)
    for run_id, events in journals.items():
        for event in events:
            if event.type is EventType.STEP_DONE:
                done[f"{NAME}/{run_id}/{event.data['key']}"].append(event.at)
    return done


def started(evidence: Evidence) -> list[tuple[str, float]]:
    """Return every sign that a step's code ran, from the diary and from the ledger."""
    noted = [(execution.key, execution.at) for execution in evidence.executions]
    return noted + [(entry.effect.key, entry.at) for entry in evidence.entries]


def unfinished(evidence: Evidence) -> Iterator[str]:
    """Tell of each run that is not complete."""
    for run_id, ticket in evidence.tickets.items():
        events = evidence.journals.get(run_id, ())
        last = events[-1].type.value if events else "no readable journal"
        if last != EventType.RUN_COMPLETE:
            yield f"{ticket}: its run {run_id!r} ends with {last}"


def not_recorded_once(
    done: Mapping[str, list[float]], begun: Sequence[tuple[str, float]]
) -> Iterator[str]:
    """Tell of each step that ran and is not recorded, or is recorded more than once."""
    for key in sorted({key for key, _ in begun} - done.keys()):
        yield f"step {key!r} ran and has no step:done"
    for key, times in sorted(done.items()):
        if len(times) > 1:
            yield f"step {key!r} has {len(times)} step:done events"


def ran_again(done: Mapping[str, list[float]], begun: Sequence[tuple[str, float]]) -> Iterator[str]:
    """Tell of each step whose code ran after the step had been recorded."""
    late = Counter(key for key, at in begun if key in done and at > min(done[key]))
    for key, times in sorted(late.items()):
        yield f"step {key!r} ran {times} times after it was recorded"


# --- the ledger -----------------------------------------------------------------------------------


def effects_proven(evidence: Evidence, counts: Counts) -> Iterator[Check]:
    """Check the effects on the outside world; see ``verify``."""
    reports = list(ledger_reports(evidence))
    refunds = sum(report.figures.refunds for report in reports)
    euros = sum(report.figures.refunded_cents for report in reports) / 100
    support = {
        "every ticket has its effects, each once": f"{counts.effects} effects",
        "every refund happened once": f"{refunds}, {euros:,.2f} EUR",
        "every repeated attempt was the same effect again": (
            f"{counts.attempts - counts.effects} repeated"
        ),
    }
    for claim in reports[0].proven:
        if all(claim in report.proven for report in reports):
            yield Check(claim, support.get(claim, f"{len(evidence.tickets)} tickets"))
    violations = tuple(text for report in reports for text in report.violations)
    if violations:
        yield Check("the ledger holds what should have happened", "", violations)


def ledger_reports(evidence: Evidence) -> Iterator[Report]:
    """Verify the whole ledger, or ticket by ticket where nobody knows what should have happened.

    Two tickets of a user's own may well ask for the same refund; that they get it twice is for the
    agent to prevent and says nothing of lost or repeated steps.
    """
    if evidence.expected is not None:
        yield verify(evidence.entries, evidence.expected)
        return
    for ticket, expected in whatever_was_right(evidence).items():
        yield verify(
            [entry for entry in evidence.entries if entry.effect.ticket == ticket],
            {ticket: expected},
        )


def whatever_was_right(evidence: Evidence) -> Mapping[str, Sequence[Expected]]:
    """Return what happened as what should have, but each change to the world only once.

    For tickets or models that nobody can foresee: what is proven then is that nothing doubled.
    """
    reads: defaultdict[str, list[Expected]] = defaultdict(list)
    changes: defaultdict[str, set[Expected]] = defaultdict(set)
    for ticket in evidence.tickets.values():
        changes[ticket].add(Expected(EffectKind.REPLY))
    for effect in (entry.effect for entry in evidence.entries if entry.effective):
        outcome = Expected(effect.kind, effect.order_id, effect.amount_cents)
        if effect.kind in READING:
            reads[effect.ticket].append(outcome)
        else:
            changes[effect.ticket].add(outcome)
    return {ticket: (*reads[ticket], *changes[ticket]) for ticket in changes}
