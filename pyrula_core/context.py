"""``ctx``: everything a body may ask of the engine."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable
from typing import Any

from pyrula_core.errors import QueryError
from pyrula_core.events import Event, EventType
from pyrula_core.failure import capture
from pyrula_core.replay import ScopeNames
from pyrula_core.scopes import SCOPE, Scope
from pyrula_core.substeps import RUN
from pyrula_core.values import JSON_CODEC
from pyrula_core.wait_calls import WaitCalls

__all__ = ["Context"]

Handler = Callable[..., Any]


class Context(WaitCalls):
    """Everything a body may ask of the engine.

    ``run_id`` and ``name`` identify the run, ``attempt`` counts its claims from 1, and
    ``is_replaying`` is True while recorded outcomes are being served.
    """

    def enter(self) -> None:
        """Make the calling task this run's root scope."""
        RUN.set(self)
        self._root = asyncio.current_task()
        SCOPE.set(Scope(self, ScopeNames(), self._root))
        self._queries: dict[str, Handler] = {}
        self._updates: dict[str, tuple[Handler, Handler | None]] = {}
        self._unhandled: list[Event] = []
        self._delivery.on_update = self._take_update
        for event in self._delivery.early_updates:
            self._take_update(event)

    # --- queries --------------------------------------------------------------------------------

    def on_query(self, name: str, fn: Handler) -> None:
        """Answer ``client.query(..., name, *args)`` with ``fn(*args)``.

        ``fn`` is sync, looks at the body's state and changes nothing: it may be called at any time,
        also in a process that only replays the journal to answer.
        """
        self._queries[name] = fn

    def answer_query(self, name: str, args: tuple[Any, ...]) -> Any:
        """Return what the body's query function says; raises QueryError."""
        fn = self._queries.get(name)
        if fn is None:
            known = ", ".join(sorted(self._queries)) or "none"
            raise QueryError(
                f"run {self._key} answers no query {name!r} (it answers: {known})",
                hint="Register it with ctx.on_query at the beginning of the body",
            )
        try:
            return fn(*args)
        except Exception as error:
            raise QueryError(f"query {name!r} of run {self._key} raised {error!r}") from error

    # --- updates --------------------------------------------------------------------------------

    def on_update(self, name: str, fn: Handler, validator: Handler | None = None) -> None:
        """Handle ``client.update(..., name, *args)`` with ``fn(*args)``, once for each update.

        ``validator(*args)`` is called first; what it raises rejects the update, and nothing else
        happens. ``fn`` may be async and use steps; what it returns is the update's result. It runs
        beside the body, at the same place of the journal on every replay.
        """
        self._updates[name] = (fn, validator)
        waiting, self._unhandled = self._unhandled, []
        for event in waiting:
            self._take_update(event)

    def _take_update(self, event: Event) -> None:
        """Start the handler of an update, or keep the update until one is registered."""
        handler = self._updates.get(event.data["name"])
        if handler is None:
            self._unhandled.append(event)
            return
        recorded = self._delivery.recording.updates.get(event.data["id"])
        # What the validator refused, the body never saw; what the handler raised, it did.
        if recorded is None or recorded.data.get("stage") != "validator":
            self._delivery.working(+1)
            task = asyncio.ensure_future(self._handle(event, handler, recorded))
            self.adopt(task)
            task.add_done_callback(lambda _: self._delivery.working(-1))

    async def _handle(
        self, event: Event, handler: tuple[Handler, Handler | None], recorded: Event | None
    ) -> None:
        """Validate, handle and record one update; a replay only handles."""
        fields = {"id": event.data["id"]}
        RUN.set(self)
        names = ScopeNames(f"update:{event.data['id']}/")
        SCOPE.set(Scope(self, names, asyncio.current_task()))
        args = [] if event.payload is None else JSON_CODEC.decode(event.payload)
        fn, validator = handler
        stage = "validator"
        try:
            if validator is not None and recorded is None:
                validator(*args)
            stage = "handler"
            result = fn(*args)
            if inspect.isawaitable(result):
                result = await result
            outcome = Event(EventType.UPDATE_HANDLED, fields, JSON_CODEC.encode(result))
        except Exception as error:  # noqa: BLE001 (the update's outcome, whatever it is)
            failure = {**fields, "stage": stage, "failure": capture(error).to_json()}
            outcome = Event(EventType.UPDATE_REJECTED, failure)
        if recorded is None:
            await self._delivery.commit(f"update:{fields['id']}", outcome)
