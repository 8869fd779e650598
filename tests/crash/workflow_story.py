"""A plain workflow that does everything a body can do, told until it is done.

Its steps take times that differ from process to process, so every life that runs live finds its
own order, and every life that replays has to follow the recorded one.
"""

from __future__ import annotations

import asyncio
import os
import random
from typing import Any

from pyrula_core import Context, InlineWorkflowRunner, OutcomeUnknown, current_run, workflow
from pyrula_core.adapter import Registry
from pyrula_core.model import RunKey
from pyrula_core.ports import Store
from tests.crash.effects import EffectsLog
from tests.crash.evidence import Evidence

NAME = "kill-workflow"
BRANCHES = range(10)
LEAVES = range(3)
COURIERS = range(3)
SEED = 11


class WorkflowStory:
    """The workflow, its steps, and what must come of it."""

    name = "workflow"
    run = RunKey(NAME, "r")
    unsure = frozenset({"wire#0"})

    def __init__(self) -> None:
        self.effects = EffectsLog()
        self.registry = Registry()
        workflow(name=NAME, registry=self.registry)(self.body())

    async def live(self, store: Store) -> Any:
        """Run the workflow and answer its question, whoever asked it."""
        runner = InlineWorkflowRunner(store, registry=self.registry)
        outcome = await runner.run(*self.key, SEED)
        while outcome.status == "interrupted":
            for question in outcome.interrupts:
                await runner.client.answer(*self.key, question.id, {"approved": question.value})
            outcome = await runner.run(*self.key)
        view = await runner.client.describe(*self.key)
        return {"status": outcome.status, "shown": str(view.status), "output": outcome.output}

    @property
    def key(self) -> tuple[str, str]:
        """Name and run id, as the client takes them."""
        return self.run.name, self.run.run_id

    # --- the body -------------------------------------------------------------------------------

    def body(self) -> Any:
        """Return the body as a function of its own."""

        async def story(ctx: Context, seed: int) -> dict[str, Any]:
            walked = [await ctx.step("walk", self.walk, place) for place in range(3)]
            branched = await self.branches(ctx, seed)
            nested = await ctx.step("nest", self.nest)
            raced = await self.races(ctx)
            failed = await self.failures(ctx)
            await ctx.sleep(0.02)
            answer = await ctx.interrupt({"amount": 42})
            last = await ctx.step("last", self.walk, 99)
            return {
                "walked": walked,
                **branched,
                "nested": nested,
                **raced,
                **failed,
                "answer": answer,
                "last": last,
            }

        return story

    async def branches(self, ctx: Context, seed: int) -> dict[str, Any]:
        """Ten sequences side by side; the order in which they end is remembered."""
        ended: list[int] = []

        async def branch(number: int) -> int:
            total = 0
            for leaf in LEAVES:
                total += await ctx.step("leaf", self.leaf, seed, number, leaf)
            ended.append(number)
            return total

        totals = await asyncio.gather(*(branch(number) for number in BRANCHES))
        return {"totals": totals, "ended": ended}

    async def races(self, ctx: Context) -> dict[str, Any]:
        """The winner decides what is done next; one loser is cancelled, another one awaited."""
        runners = {
            asyncio.create_task(ctx.step("run", self.racer, name), name=name): name
            for name in ("hare", "tortoise")
        }
        done, slower = await asyncio.wait(runners, return_when=asyncio.FIRST_COMPLETED)
        winner = runners[done.pop()]
        medal = await ctx.step("medal", self.medal, winner)
        await asyncio.gather(*slower)
        snail = asyncio.create_task(ctx.step("snail", self.racer, "snail"))
        bird = asyncio.create_task(ctx.step("bird", self.racer, "bird"))
        await asyncio.wait({snail, bird}, return_when=asyncio.FIRST_COMPLETED)
        snail.cancel()
        couriers = [
            asyncio.create_task(ctx.step("courier", self.courier, number)) for number in COURIERS
        ]
        arrived = [await courier for courier in asyncio.as_completed(couriers)]
        return {"medal": medal, "arrived": arrived}

    async def failures(self, ctx: Context) -> dict[str, Any]:
        """A failure that is caught, and calls whose outcome a crash leaves unknown."""
        try:
            await ctx.step("break", self.broken)
        except ValueError as error:
            caught = str(error)
        charged = await ctx.once("charge", self.once, "charged", on_unknown="retry")
        try:
            wired = await ctx.once("wire", self.once, "sent")
        except OutcomeUnknown:
            wired = "unknown"
        return {"caught": caught, "charged": charged, "wired": wired}

    # --- its steps ------------------------------------------------------------------------------

    def walk(self, place: int) -> int:
        """Take no time at all."""
        self.effects.happened()
        return place * 2

    async def leaf(self, seed: int, branch: int, leaf: int) -> int:
        """Take a time that the seed decides."""
        self.effects.happened()
        await asyncio.sleep(random.Random(f"{seed} {branch} {leaf}").random() / 100)
        return branch * 10 + leaf

    async def racer(self, name: str) -> str:
        """Take a time that differs from process to process; the snail takes for ever."""
        self.effects.happened()
        luck = random.Random(f"{name} {os.getpid()}").random()
        await asyncio.sleep(60 if name == "snail" else luck / 200)
        return name

    async def courier(self, number: int) -> int:
        """Arrive when this process feels like it."""
        await self.racer(f"courier {number}")
        return number

    async def medal(self, winner: str) -> str:
        """Give the winner what it has won."""
        self.effects.happened()
        return f"gold for the {winner}"

    async def nest(self) -> str:
        """Do a part that is recorded by itself."""
        inner = await current_run().step("inner", self.inner)
        self.effects.happened()
        return f"nested {inner}"

    def inner(self) -> str:
        """Be that part."""
        self.effects.happened()
        return "part"

    def broken(self) -> None:
        """Always fail."""
        self.effects.happened()
        raise ValueError("it never works")

    def once(self, word: str) -> str:
        """Move money."""
        self.effects.happened()
        return word

    # --- what must come of it -------------------------------------------------------------------

    def expected(self, journal: Evidence, reference: Any) -> Any:
        """Return the outcome that follows the branches which this journal took."""
        recorded = journal.recorded
        places = {key: place for place, key in enumerate(recorded)}
        children = len(BRANCHES)
        hare, tortoise = f"~{children}/run#0", f"~{children + 1}/run#0"
        winner = "hare" if places[hare] < places[tortoise] else "tortoise"
        couriers = {f"~{children + 4 + number}/courier#0": number for number in COURIERS}
        output = {
            **reference["output"],
            "ended": sorted(BRANCHES, key=lambda branch: places[f"~{branch}/leaf#2"]),
            "medal": f"gold for the {winner}",
            "arrived": [couriers[key] for key in recorded if key in couriers],
            "wired": "sent" if "wire#0" in journal.keys_of("step:done") else "unknown",
        }
        return {**reference, "output": output}
