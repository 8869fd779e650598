"""Where in a run the calling code stands: its task, its names, the step it is inside."""

from __future__ import annotations

import asyncio
import hashlib
from contextvars import ContextVar
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pyrula_core.model import RunKey
from pyrula_core.replay import ScopeNames

if TYPE_CHECKING:
    from pyrula_core.step_calls import StepCalls

__all__ = ["SCOPE", "Scope", "current_scope", "interrupt_id"]


@dataclass(slots=True)
class Scope:
    """Where in a run the code stands: its task, the names it has used, the step it is inside."""

    context: StepCalls
    names: ScopeNames
    task: asyncio.Task[Any] | None
    step_key: str | None = None
    attempt: int = 1


SCOPE: ContextVar[Scope | None] = ContextVar("pyrula_scope", default=None)


def current_scope(name: str = "", digest: str | None = None) -> Scope | None:
    """Return the scope of the calling task, None outside of a run.

    A task that was started inside another one gets a scope of its own at its first durable call,
    so that concurrent branches do not share counters. ``name`` and ``digest`` say what that call
    is: by them a branch finds its records again, in whatever order branches start.
    """
    scope = SCOPE.get()
    if scope is None:
        return None
    task = running_task()
    if task is None or scope.task is task:
        return scope
    names = scope.context.branch(scope.names, name, digest)
    own = Scope(scope.context, names, task, scope.step_key, scope.attempt)
    scope.context.adopt(task)
    SCOPE.set(own)
    return own


def running_task() -> asyncio.Task[Any] | None:
    """Return the task of the calling code, None in a thread without an event loop."""
    try:
        return asyncio.current_task()
    except RuntimeError:
        return None


def interrupt_id(run: RunKey, key: str) -> str:
    """Return the id of the question asked under ``key``: 32 hex digits, the same on every pass."""
    text = f"{run.name}\0{run.run_id}\0{key}"
    return hashlib.blake2b(text.encode(), digest_size=16).hexdigest()
