"""Fills a store with a run in every state."""

from __future__ import annotations

import json
from typing import Any

import pytest

from pyrula_core import Client, Engine, Poison, Registry, errors, open_store, workflow
from pyrula_core.events import Payload
from pyrula_core.model import RunKey, RunKind
from pyrula_core.registry import Definition

SECRET = "hunter2"

APP = """
import json
from pyrula_core.events import Payload
from pyrula_core.model import RunKind
from pyrula_core.registry import REGISTRY, Definition

class Codec:
    name = "graph/1"
    def encode(self, value):
        return Payload(self.name, json.dumps(["graph", value]).encode())
    def decode(self, payload):
        return json.loads(payload.body)

bot = Definition("graph-like", "1", RunKind.AGENT, executor=object(), input_codec=Codec())
REGISTRY.add(bot)
"""
"""A module that registers ``graph-like``, to be written to a file."""


class GraphLikeCodec:
    """A codec that this process knows only where it is registered."""

    name = "graph/1"

    def encode(self, value: object) -> Payload:
        return Payload(self.name, json.dumps(value).encode())

    def decode(self, payload: Payload) -> Any:
        return json.loads(payload.body)


def workflows() -> Registry:
    registry = Registry()

    @workflow(name="sync", version="7", registry=registry)
    async def sync(ctx: Any, account: str, then: str) -> Any:
        await ctx.step("pull", lambda: {"password": SECRET})
        if then == "fail":
            raise Poison(f"card of {account}\nwas declined", code="card_declined")
        if then == "ask":
            question = {"refund": 42}
            return await ctx.interrupt(question, response_schema={"type": "boolean"})
        return [account, 1]

    @workflow(name="graph-like", registry=Registry())
    async def graph_like(ctx: Any, question: str) -> Any:
        answer = await ctx.interrupt(question)
        if answer == "fail":
            raise Poison("asked to fail")
        return answer

    registry.add(
        Definition("graph-like", "1", RunKind.AGENT, graph_like, input_codec=GraphLikeCodec())
    )
    return registry


async def fill(url: str) -> None:
    with open_store(url) as store:
        registry = workflows()
        client = Client(store, registry=registry)
        await client.run_and_await("sync", "acct-7", "end", run_id="complete-1")
        with pytest.raises(errors.DurableInvocationError):
            await client.run_and_await("sync", "acct-7", "fail", run_id="error-1", thread="chat-1")
        await client.run_and_await("sync", "acct-7", "ask", run_id="asking-1")
        await client.start("sync", "acct-7", "end", run_id="queued-1")
        await client.start("sync", "acct-7", "end", run_id="paused-1")
        await client.pause("sync", "paused-1", reason="bank is down")
        await client.start("sync", "acct-7", "end", run_id="cancelled-1")
        await client.cancel("sync", "cancelled-1", reason="withdrawn")
        await client.start("sync", "acct-7", "end", run_id="lost-1")
        forgetful = Engine(store, registry, lease_ttl=0.0)
        for _ in range(3):
            await forgetful.claim(RunKey("sync", "lost-1"))
        await client.run_and_await("graph-like", "ok?", run_id="graph-1")
        await client.start("graph-like", "ok?", run_id="twice")
        await client.start("sync", "acct-7", "end", run_id="twice")
