"""Durable calls for code that was not handed a ``ctx``: helpers of a body, LangGraph nodes, tools.

Must never be imported by the engine: it only reads the scope that the engine has set.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

from pyrula_core.steps import OnUnknown
from pyrula_core.substeps import RUN, DurableCalls

__all__ = ["current_run", "once", "step"]


def current_run() -> DurableCalls:
    """Return the context of the run that the calling code belongs to.

    Raises RuntimeError outside of a run, and in a thread that was not given the run's context
    (start it with ``asyncio.to_thread`` or ``contextvars.copy_context().run``).
    """
    run = RUN.get()
    if run is None:
        raise RuntimeError(
            "no durable run is active here. Call this from a workflow body, a step or a wrapped "
            "graph's node; in a thread of your own, start it with asyncio.to_thread"
        )
    return run


def step(
    name: str,
    fn: Callable[..., Any],
    *args: Any,
    retry: object = None,
    timeout: float | None = None,
    on_unknown: OnUnknown = "retry",
    **kwargs: Any,
) -> Any:
    """Do a step of the current run; awaited in async code, called plainly in sync code.

    See ``Context.step``. In a thread without an event loop, as LangGraph's sync nodes have, the
    step is done at once and its value returned.
    """
    options = {"retry": retry, "timeout": timeout, "on_unknown": on_unknown}
    return now_or_awaitable(current_run().step(name, fn, *args, **options, **kwargs))


def once(
    name: str,
    fn: Callable[..., Any],
    *args: Any,
    retry: object = None,
    timeout: float | None = None,
    on_unknown: OnUnknown = "fail",
    **kwargs: Any,
) -> Any:
    """Do a step of the current run at most once; awaited or not, as ``step``.

    See ``Context.once``.
    """
    options = {"retry": retry, "timeout": timeout, "on_unknown": on_unknown}
    return now_or_awaitable(current_run().once(name, fn, *args, **options, **kwargs))


def now_or_awaitable(work: Coroutine[Any, Any, Any]) -> Any:
    """Return ``work`` to be awaited, or do it now where nobody could await it."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(work)
    return work
