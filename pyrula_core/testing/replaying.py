"""Replays a recorded journal against the code as it is now, without running a single step.

Owns golden journals: how one is written to a file, and what it means that code still matches it. A
test of a workflow of yours keeps the journal of a run from production and says::

    replay(Path("order.journal.json").read_text(), order)

It fails with the same diff that the run would fail with, before a deploy instead of after it.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from pyrula_core.codec import encode
from pyrula_core.engine import Engine
from pyrula_core.errors import JournalError, NondeterminismError
from pyrula_core.events import TERMINAL, Event, EventType, Payload, check_fields
from pyrula_core.machine import fold
from pyrula_core.model import RunKey, RunKind
from pyrula_core.ports import Append, Claimed, Create, Fenced
from pyrula_core.registry import Definition, Registry
from pyrula_core.stores.memory import MemoryStore
from pyrula_core.testing.clock import SeededEntropy
from pyrula_core.testing.oracle import event_of, watched
from pyrula_core.testing.sim_loop import SimClock, SimLoop, beside_running_loops, simulation
from pyrula_core.testing.sim_process import SimProcess
from pyrula_core.values import JSON_CODEC

__all__ = ["Replayed", "journal_from_json", "journal_to_json", "replay"]

OURS: Final = frozenset(
    {"max_retries", "store_unavailable", "event_refused", "journal_corrupt", "no_compatible_worker"}
)
"""Error codes that say nothing of the code: it did not end this way by itself."""


@dataclass(frozen=True, slots=True)
class Replayed:
    """How far a journal takes the code.

    ``status`` is the run's last one (``complete``, ``error``, ``cancelled``, ``continued``) or
    ``open`` for a journal without an end; ``output`` is what the body returned, and ``asked`` what
    an open run does next, in the words of the journal.
    """

    status: str
    output: Any = None
    asked: tuple[str, ...] = ()


class StepAsked(BaseException):
    """Stops a body where it would run a step that its journal does not hold."""


class ReadOnlyStore(MemoryStore):
    """Holds one journal and notes what somebody would add to it; only an end is let through."""

    def __init__(self, clock: SimClock) -> None:
        super().__init__(clock=clock)
        self.asked: list[str] = []
        self.end: Event | None = None

    def append(self, op: Append) -> Any:
        """Note the events; whoever writes anything but an end loses its lease."""
        events = [event_of(op.key, body) for body in op.events]
        for event in events:
            if event.type in TERMINAL:
                self.end = event
            elif event.type is not EventType.STEP_ERROR:
                self.asked.append(words_of(event))
        return super().append(op) if not self.asked else Fenced(epoch=op.epoch)


@dataclass(slots=True)
class Replay:
    """One journal on its way through some code."""

    key: RunKey
    kind: RunKind
    workflow: Callable[..., Any]
    events: list[Event]
    ended: Event | None

    def run(self) -> Replayed:
        """Replay on virtual time."""
        with simulation(0) as loop:
            return loop.run_until_complete(self.drive(loop))

    async def drive(self, loop: SimLoop) -> Replayed:
        """Let the engine drive the run from its journal, and compare where it comes to."""
        clock = clock_at(loop, self.events[-1].at)
        store = ReadOnlyStore(clock)

        def stop_at_step(_: RunKey, idempotency_key: str, **__: bool) -> None:
            store.asked.append(f"step {idempotency_key.split('/', 2)[-1]!r}")
            raise StepAsked

        registry, version = Registry(), str(self.events[0].data["version"])
        body = watched(self.workflow, stop_at_step)
        registry.add(Definition(self.key.name, version, self.kind, body=body))
        bodies = tuple(encode(event) for event in self.events)
        await store.call(Create(self.key, self.kind, version, self.key.run_id, bodies))
        engine = Engine(
            store,
            registry,
            clock=clock,
            entropy=SeededEntropy(0),
            keeper=None,
            max_retries=len(self.events),
            max_store_requeues=len(self.events),
        )
        claimed = await engine.claim(self.key)
        assert isinstance(claimed, Claimed), "nobody else knows this store"
        ending = await engine.drive(claimed.row)
        error = getattr(ending, "error", None)
        if isinstance(error, NondeterminismError) and not self.ended_so("nondeterminism"):
            raise error
        return self.compare(store)

    def ended_so(self, code: str) -> bool:
        """Tell whether the recorded run ended with this error code."""
        return self.ended is not None and self.ended.data.get("code") == code

    def compare(self, store: ReadOnlyStore) -> Replayed:
        """Compare what the code asked for, or ended with, with the end of the journal."""
        if self.ended is None:
            found = store.asked or ([] if store.end is None else [words_of(store.end)])
            return Replayed("open", asked=tuple(found))
        status = self.ended.type.removeprefix("run:")
        if store.asked:
            if not self.explains(store.asked):
                raise differs(self.ended, store.asked[0])
            return Replayed(status)
        if not self.explains(()) and not same_end(self.ended, store.end):
            asked = "nothing: the body waits" if store.end is None else words_of(store.end)
            raise differs(self.ended, asked)
        payload = self.ended.payload
        return Replayed(status, None if payload is None else JSON_CODEC.decode(payload))

    def explains(self, asked: Sequence[str]) -> bool:
        """Tell whether the recorded end says why the code would go on otherwise.

        A cancel comes from outside. A step whose failure ended the run is not recorded, so that a
        retry runs it again.
        """
        assert self.ended is not None, "an open journal has no end"
        if self.ended.type is EventType.RUN_CANCELLED:
            return True
        if self.ended.type is not EventType.RUN_ERROR:
            return False
        failed = [f"step {key!r}" for key in self.ended.data.get("detail", {}).get("steps", ())]
        return self.ended.data["code"] in OURS or any(step in failed for step in asked)


def replay(
    history: Sequence[Event] | str,
    workflow: Callable[..., Any],
    *,
    name: str | None = None,
    run_id: str = "replay",
    kind: RunKind = RunKind.WORKFLOW,
) -> Replayed:
    """Run a body against a journal, all of whose steps are served from it.

    ``history`` is what ``client.history`` returned, or the text that ``journal_to_json`` made of
    it. ``name`` and ``run_id`` are the run's, for code that looks at them.

    Raises NondeterminismError, with the diff in its message, when the code asks for something else
    than the journal holds, or comes to another end; JournalError when the journal is not whole.
    """
    events = journal_from_json(history) if isinstance(history, str) else list(history)
    state = fold(events)
    if state.created is None:
        raise JournalError("an empty journal cannot be replayed")
    key = RunKey(name or str(getattr(workflow, "__name__", "workflow")), run_id)
    recorded = [event for event in events if event.type not in TERMINAL]
    return beside_running_loops(Replay(key, kind, workflow, recorded, state.ended).run)


def clock_at(loop: SimLoop, wall: float) -> SimClock:
    """Return a clock that stands at a time of the journal."""
    process = SimProcess("replay")
    clock = SimClock(loop, process)
    process.jump(wall - clock.time())
    return clock


def same_end(recorded: Event, found: Event | None) -> bool:
    """Tell whether two ends of a run are the same, as far as code decides them."""
    if found is None or found.type is not recorded.type:
        return False
    if recorded.type is EventType.RUN_ERROR:
        return bool(
            recorded.data["code"] == found.data["code"]
            and recorded.data["failure"].get("type_path") == found.data["failure"].get("type_path")
        )
    return recorded.payload == found.payload


def words_of(event: Event) -> str:
    """Return what an event says, in a few words."""
    kind, _, change = event.type.partition(":")
    if event.type in TERMINAL:
        value = "" if event.payload is None else f" {shortened(event.payload)}"
        return (
            f"the end of the run: {change}{value or ' ' + str(event.data.get('code', ''))}".strip()
        )
    return f"{kind} {event.data.get('key', event.data.get('id', '?'))!r} ({change})"


def shortened(payload: Payload, longest: int = 80) -> str:
    """Return the beginning of a value."""
    text = payload.body.decode("utf-8", "replace")
    return text if len(text) <= longest else f"{text[:longest]}..."


def differs(recorded: Event, asked: str) -> NondeterminismError:
    """Return the error that shows the end of the journal and what the code does instead."""
    text = words_of(recorded)
    return NondeterminismError(
        f"the code goes on where its journal ends, or ends otherwise\n"
        f"  journal, event {recorded.seq}: {text}\n"
        f"  code now:{' ' * len(str(recorded.seq))}      {asked}\n",
        recorded=text,
        asked=asked,
        seq=recorded.seq,
    )


# --- golden journals ------------------------------------------------------------------------------


def journal_to_json(history: Sequence[Event]) -> str:
    """Return a journal as JSON text, one event a line, exact to the byte."""
    lines = [json.dumps(document_of(event), ensure_ascii=False) for event in history]
    return "[\n" + ",\n".join(lines) + "\n]\n"


def journal_from_json(text: str) -> list[Event]:
    """Return the journal that ``journal_to_json`` wrote; raises JournalError for another text."""
    try:
        return [event_from(document) for document in json.loads(text)]
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise JournalError(
            f"this is not a journal that journal_to_json has written: {error!r}",
            hint="Export it again with journal_to_json(await client.history(name, run_id))",
        ) from error


def document_of(event: Event) -> dict[str, Any]:
    """Return an event as plain JSON; a value that is not text is written in base64."""
    document: dict[str, Any] = {"seq": event.seq, "type": str(event.type), "at": event.at}
    document["fields"] = dict(event.data)
    if event.payload is not None:
        document["codec"] = event.payload.codec
        try:
            document["text"] = event.payload.body.decode("utf-8")
        except UnicodeDecodeError:
            document["base64"] = base64.b64encode(event.payload.body).decode("ascii")
    return document


def event_from(document: dict[str, Any]) -> Event:
    """Return the event that a document stands for."""
    payload = None
    if "codec" in document:
        text = document.get("text")
        body = base64.b64decode(document["base64"]) if text is None else text.encode("utf-8")
        payload = Payload(document["codec"], body)
    kind, fields = EventType(document["type"]), document["fields"]
    event = Event(kind, fields, payload, at=document["at"], seq=document["seq"])
    check_fields(event)
    return event
