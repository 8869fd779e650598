"""Makes a node a durable step: controls before it, swallowed controls after it, its own retries.

Owns ``DurableNode``, which stands in for ``PregelNode.node`` and so wraps routers, ``Command`` and
``Send`` along with the node's body. Without a run around it, it changes nothing.
"""

from __future__ import annotations

import asyncio
import logging
import random
import time
from collections.abc import AsyncIterator, Iterator
from typing import Any, Self

from langchain_core.runnables import Runnable, RunnableConfig
from langgraph.errors import GraphBubbleUp

from pyrula_core import OutcomeUnknown, RetryPolicy
from pyrula_core.adapter import RUN
from pyrula_langgraph._compat import DURABILITY, SEND, reset_child_counters, swallowed_interrupt
from pyrula_langgraph.errors import InterruptSwallowed
from pyrula_langgraph.leg import FRAME, LEG, Frame, Leg
from pyrula_langgraph.options import NodeOptions

__all__ = ["DurableNode"]

log = logging.getLogger("pyrula.node")

NEVER_RETRIED = (GraphBubbleUp, InterruptSwallowed)


class DurableNode(Runnable[Any, Any]):
    """A node's runnable with durability around it; ``inner`` is LangGraph's own."""

    def __init__(
        self,
        inner: Runnable[Any, Any],
        *,
        options: NodeOptions,
        policy: RetryPolicy | None,
        unsaved: bool = False,
    ) -> None:
        self.inner = inner
        self.unsaved = unsaved
        self.options = options
        self.policy = policy
        self.name = getattr(inner, "name", None)

    def invoke(self, input: Any, config: RunnableConfig | None = None, **kwargs: Any) -> Any:
        """Run the node in this thread."""
        leg, config = LEG.get(), self.configured(config)
        if leg is None:
            reset_child_counters((config or {}).get("configurable", {}))
            return self.inner.invoke(input, config, **kwargs)
        number, began = 0, time.monotonic()
        while True:
            number += 1
            with Passage(leg, config, self.options) as passage:
                result = self.inner.invoke(input, config, **kwargs)
                passage.check_honoured()
                return result
            time.sleep(self._wait(passage, number, began))

    async def ainvoke(self, input: Any, config: RunnableConfig | None = None, **kwargs: Any) -> Any:
        """Run the node on the event loop."""
        leg, config = LEG.get(), self.configured(config)
        if leg is None:
            reset_child_counters((config or {}).get("configurable", {}))
            return await self.inner.ainvoke(input, config, **kwargs)
        number, began = 0, time.monotonic()
        while True:
            number += 1
            with Passage(leg, config, self.options) as passage:
                async with asyncio.timeout(self.options.timeout):
                    result = await self.inner.ainvoke(input, config, **kwargs)
                passage.check_honoured()
                return result
            await asyncio.sleep(self._wait(passage, number, began))

    def stream(
        self, input: Any, config: RunnableConfig | None = None, **kwargs: Any
    ) -> Iterator[Any]:
        """Run the node in this thread, passing on what it yields."""
        leg, config = LEG.get(), self.configured(config)
        if leg is None:
            reset_child_counters((config or {}).get("configurable", {}))
            yield from self.inner.stream(input, config, **kwargs)
            return
        number, began = 0, time.monotonic()
        while True:
            number += 1
            with Passage(leg, config, self.options) as passage:
                yield from self.inner.stream(input, config, **kwargs)
                passage.check_honoured()
                return
            time.sleep(self._wait(passage, number, began))

    async def astream(
        self, input: Any, config: RunnableConfig | None = None, **kwargs: Any
    ) -> AsyncIterator[Any]:
        """Run the node on the event loop, passing on what it yields."""
        leg, config = LEG.get(), self.configured(config)
        if leg is None:
            reset_child_counters((config or {}).get("configurable", {}))
            async for chunk in self.inner.astream(input, config, **kwargs):
                yield chunk
            return
        number, began = 0, time.monotonic()
        while True:
            number += 1
            with Passage(leg, config, self.options) as passage:
                async with asyncio.timeout(self.options.timeout):
                    async for chunk in self.inner.astream(input, config, **kwargs):
                        yield chunk
                passage.check_honoured()
                return
            await asyncio.sleep(self._wait(passage, number, began))

    def configured(self, config: RunnableConfig | None) -> RunnableConfig | None:
        """Return the config for the node; a graph that is not saved waits for no checkpoint.

        LangGraph hands its durability mode down and then waits for the checkpoint of a graph that
        was compiled with ``checkpointer=False`` and makes none.
        """
        if not self.unsaved or config is None:
            return config
        configurable = {**config.get("configurable", {}), DURABILITY: "async"}
        return {**config, "configurable": configurable}

    def _wait(self, passage: Passage, number: int, began: float) -> float:
        """Return how long to wait before the next attempt, or raise what the last one raised."""
        error = passage.error
        assert error is not None, "a passage that did not fail returns"
        delay = None
        if self.policy is not None:
            elapsed, now = time.monotonic() - began, time.time()
            delay = self.policy.next_wait(
                error, number, random=random.random(), elapsed=elapsed, now=now
            )
        if delay is None:
            raise error
        log.info("node_retrying key=%s attempt=%d delay_s=%.3f", passage.key, number, delay)
        passage.clear_writes()
        return delay


class Passage:
    """One attempt at a node: what holds before it, and what is checked after it.

    A context manager that keeps an ordinary failure in ``error`` and lets everything else out.
    """

    def __init__(self, leg: Leg, config: RunnableConfig | None, options: NodeOptions) -> None:
        self.leg = leg
        self.config: Any = config or {}
        self.options = options
        self.error: Exception | None = None
        self.frame: Frame | None = None

    @property
    def key(self) -> str:
        """The node's structural key."""
        return "" if self.frame is None else self.frame.key

    def __enter__(self) -> Self:
        self.leg.check()
        configurable = self.config.get("configurable", {})
        reset_child_counters(configurable)
        self.frame = self.leg.enter(self.config)
        if self.options.on_unknown == "fail":
            self.announce(self.frame)
        self.tokens = (FRAME.set(self.frame), RUN.set(self.frame.run))
        return self

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> bool:
        FRAME.reset(self.tokens[0])
        RUN.reset(self.tokens[1])
        assert self.frame is not None, "entered before"
        if isinstance(error, Exception) and not isinstance(error, NEVER_RETRIED):
            if self.frame.stopped is not None:
                # The node turned a control into an error of its own: the control counts.
                raise self.frame.stopped from error
            self.frame.run.drop_failures()
            self.error = error
            return True
        return False

    def check_honoured(self) -> None:
        """Raise a control that the node was shown and did not let through.

        What such a node returned is tainted: nothing of it is saved, and it runs again.
        """
        assert self.frame is not None, "entered before"
        if self.frame.stopped is not None:
            raise self.frame.stopped
        if swallowed_interrupt(self.config.get("configurable", {})):
            raise InterruptSwallowed(self.frame.key)

    def announce(self, frame: Frame) -> None:
        """Record that the node is about to run; refuse when it had begun before a crash."""
        if frame.key in self.leg.records.begun and frame.run.attempt == 1:
            raise OutcomeUnknown(
                f"node {frame.key!r} was started and the process died before its outcome was "
                "recorded",
                hint="Find out whether its effect happened, then retry the run",
            )
        frame.run.announce()

    def clear_writes(self) -> None:
        """Drop what the failed attempt had written, as LangGraph does between its own attempts."""
        send = self.config.get("configurable", {}).get(SEND)
        writes = getattr(send, "__self__", None)
        if writes is not None and hasattr(writes, "clear"):
            writes.clear()
