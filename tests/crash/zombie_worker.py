"""A worker that stops itself, as a laptop that is closed or a container that is frozen does.

A program of its own: ``python -m tests.crash.zombie_worker workflow in-step FOLDER``. It drives one
run and prints the outcome in JSON. ``in-step`` stops inside the step *slow*; ``before-write`` and
``after-write`` stop between its own look at the lease and the store's, around the write of *slow*;
``never`` does not stop.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from pathlib import Path
from typing import Any

from pyrula_core import Context, Engine, InlineWorkflowRunner, workflow
from pyrula_core.adapter import Registry
from pyrula_core.model import RunKey
from pyrula_core.ports import Store
from pyrula_core.stores import open_store
from tests.crash.effects import EffectsLog
from tests.crash.killing_store import Kill, KillingStore

RUN = RunKey("zombie", "r")
lease_s = 1.0


class Worker:
    """Drives the run; ``stops`` says where it freezes."""

    def __init__(self, kind: str, stops: str, folder: Path) -> None:
        self.effects = EffectsLog()
        self.effects.open(folder / "effects")
        self.kind = kind
        self.stops = stops
        kill = None
        if stops.endswith("-write"):
            mode: Any = stops.removesuffix("-write")
            kill = Kill(0, mode, holding=b"slow")
        opened = open_store(f"sqlite:///{folder / 'runs.db'}")
        self.store: Store = KillingStore(opened, kill, freeze)

    async def drive(self) -> dict[str, Any]:
        """Start the run or go on with it, and return its output."""
        return await (self.graph() if self.kind == "graph" else self.workflow())

    def work(self, name: str) -> int:
        """Be a step: leave a trace before and, where the process froze meanwhile, after."""
        self.effects.happened()
        if name == "slow" and self.stops == "in-step":
            freeze()
            self.effects.happened("late")
        return os.getpid()

    async def workflow(self) -> dict[str, Any]:
        """Do three steps one after another."""
        registry = Registry()

        @workflow(name=RUN.name, registry=registry)
        async def body(ctx: Context) -> dict[str, int]:
            names = ("first", "slow", "last")
            return {name: await ctx.step(name, self.work, name) for name in names}

        engine = Engine(self.store, registry, lease_ttl=lease_s)
        runner = InlineWorkflowRunner(engine=engine)
        return dict((await runner.run(RUN.name, RUN.run_id)).output)

    async def graph(self) -> dict[str, Any]:
        """Do three nodes one after another."""
        from langgraph.graph import StateGraph

        from pyrula_langgraph import durable

        def node(name: str) -> Any:
            return lambda state: {**state, name: self.work(name)}

        names = ("first", "slow", "last")
        builder = StateGraph(dict).add_sequence([(name, node(name)) for name in names])
        builder.set_entry_point("first")
        bot = durable(
            builder.compile(),
            name=RUN.name,
            store=self.store,
            registry=Registry(),
            lease_ttl=lease_s,
        )
        return dict((await bot.run_and_await({}, run_id=RUN.run_id)).output)


def freeze() -> None:
    """Stop this process, every thread of it, until somebody continues it."""
    os.kill(os.getpid(), signal.SIGSTOP)


def main() -> None:
    """Drive the run and print what came of it."""
    kind, stops, folder = sys.argv[1:]
    worker = Worker(kind, stops, Path(folder))
    print(json.dumps(asyncio.run(worker.drive())))
    worker.store.close()


if __name__ == "__main__":
    main()
