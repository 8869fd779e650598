"""Durable calls for code that was not handed a ``ctx``: helpers of a body, LangGraph nodes, tools.

Must never be imported by the engine: it only reads the scope that the engine has set.
"""

from __future__ import annotations

from collections.abc import Callable
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


async def step(
    name: str,
    fn: Callable[..., Any],
    *args: Any,
    retry: object = None,
    timeout: float | None = None,
    on_unknown: OnUnknown = "retry",
    **kwargs: Any,
) -> Any:
    """Do ``ctx.step`` of the current run; see ``Context.step``."""
    return await current_run().step(
        name, fn, *args, retry=retry, timeout=timeout, on_unknown=on_unknown, **kwargs
    )


async def once(
    name: str,
    fn: Callable[..., Any],
    *args: Any,
    retry: object = None,
    timeout: float | None = None,
    on_unknown: OnUnknown = "fail",
    **kwargs: Any,
) -> Any:
    """Do ``ctx.once`` of the current run; see ``Context.once``."""
    return await current_run().once(
        name, fn, *args, retry=retry, timeout=timeout, on_unknown=on_unknown, **kwargs
    )
