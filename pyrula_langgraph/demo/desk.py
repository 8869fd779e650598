"""The order desk made durable: the one place of the demo where Pyrula meets the agent.

Owns how the desk's effects get their idempotency keys and how fast it works. The supervisor opens
the same desk to read its questions, and never drives it.
"""

from __future__ import annotations

import asyncio
import time
from typing import Final

from langchain_core.rate_limiters import BaseRateLimiter
from typing_extensions import override

from pyrula_core import current_run
from pyrula_langgraph.demo.desk_agent import build_agent
from pyrula_langgraph.demo.desk_model import ScriptedDeskModel, choose_model
from pyrula_langgraph.demo.diary import Diary
from pyrula_langgraph.demo.site import NAME, Site
from pyrula_langgraph.demo.tools import DeskTools
from pyrula_langgraph.graph import DurableGraph, durable

__all__ = ["open_desk"]

# About what a model and a payment provider take; without it a laptop would be done with all the
# tickets before the first kill.
thinking_seconds: Final = 0.15
acting_seconds: Final = 0.2


def open_desk(site: Site) -> DurableGraph:
    """Return the order desk of ``site`` as a durable graph."""
    model = choose_model(site.model)
    if isinstance(model, ScriptedDeskModel):
        model.rate_limiter = Thinking()
    shop, ledger = site.shop(), site.ledger()
    tools = DeskTools(shop, ledger, delay_seconds=acting_seconds, key=key_of_step)
    agent = build_agent(shop, ledger, model, tools=tools)
    return durable(
        agent.with_config(callbacks=[Diary(site.diary_file)]), name=NAME, store=site.store
    )


def key_of_step(tool_call_id: str) -> str:
    """Return the engine's idempotency key: a step that is repeated after a crash has the same."""
    del tool_call_id
    return current_run().idempotency_key


class Thinking(BaseRateLimiter):
    """Makes the scripted model take its time, as a real one does."""

    @override
    def acquire(self, *, blocking: bool = True) -> bool:
        time.sleep(thinking_seconds)
        return True

    @override
    async def aacquire(self, *, blocking: bool = True) -> bool:
        await asyncio.sleep(thinking_seconds)
        return True
