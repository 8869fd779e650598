"""Waits between a step's attempts that outlive the process: ``RetryPolicy(durable=True)``.

Each failed attempt and the time of the next one are recorded, so neither a crash nor a long wait
starts the count again; a wait that is long enough frees the worker.
"""

from __future__ import annotations

from pyrula_core.delivery import Delivery
from pyrula_core.events import Event, EventType
from pyrula_core.failure import capture
from pyrula_core.replay import Request
from pyrula_core.steps import Pauses
from pyrula_core.waits import Wait

__all__ = ["DurablePauses"]


class DurablePauses(Pauses):
    """The recorded waits of one step; ``begun`` is the last one that a former life recorded."""

    def __init__(self, delivery: Delivery, request: Request, begun: Event | None) -> None:
        super().__init__()
        self._delivery = delivery
        self._request = request
        self._clock = delivery.attempt.clock
        known = begun is not None and begun.type is EventType.STEP_RETRYING
        self._due = float(begun.data["due"]) if known and begun is not None else 0.0
        self.tried = int(begun.data["attempt"]) if known and begun is not None else 0
        now = self._clock.time()
        self._since = float(begun.data["began"]) if known and begun is not None else now

    def elapsed(self) -> float:
        """Return the seconds since the first attempt began, downtime included."""
        return self._clock.time() - self._since

    async def rest(self) -> None:
        """Wait until the next attempt is due, where one was recorded."""
        if self._due > self._clock.time():
            key = f"{self._request.key}!due{self.tried}"
            await self._delivery.wait(Wait(key, "timer", due=self._due))

    async def pause(self, number: int, delay: float, error: Exception) -> None:
        """Record the failed attempt, then wait without holding the worker."""
        self._due = self._clock.time() + delay
        self.tried = number
        fields = {
            "key": self._request.key,
            "input": self._request.digest,
            "attempt": number,
            "due": self._due,
            "began": self._since,
            "failure": capture(error, traceback=False).to_json(),
        }
        event = Event(EventType.STEP_RETRYING, fields)
        await self._delivery.commit(f"{self._request.key}!retry{number}", event)
        self._delivery.working(-1)
        try:
            await self.rest()
        finally:
            self._delivery.working(+1)
