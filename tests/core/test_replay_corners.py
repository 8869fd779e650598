"""Corners of replay that were wrong once: each one first failed."""

from __future__ import annotations

import hashlib
from typing import Any

import pytest

from pyrula_core import (
    Client,
    DurableInvocationError,
    InlineWorkflowRunner,
    OutcomeUnknown,
    Registry,
    workflow,
)
from pyrula_core.events import Event, EventType
from pyrula_core.fingerprint import fingerprint
from pyrula_core.model import RunKey
from pyrula_core.ports import Claimed


async def hold_and_go_on(runner: InlineWorkflowRunner, run_id: str = "r") -> Any:
    """Run until the question, answer it, and run on: everything before is replayed."""
    asked = await runner.run("w", run_id)
    await runner.client.answer("w", run_id, asked.interrupts[0].id, None)
    return await runner.run("w", run_id)


@pytest.mark.parametrize("timeout", [None, 60.0, 0.02])
async def test_a_signal_that_was_read_does_not_disturb_the_steps_behind_it(
    runner: InlineWorkflowRunner, registry: Registry, timeout: float | None
) -> None:
    @workflow(name="w", registry=registry)
    async def body(ctx: Any) -> list[Any]:
        try:
            got = await ctx.wait_for_signal("go", timeout=timeout)
        except TimeoutError:
            got = "nobody"
        got = [got, await ctx.step("after", lambda: "after")]
        await ctx.interrupt("hold")
        return list(got)

    await runner.client.start("w", run_id="r")
    if timeout != 0.02:
        await runner.client.signal("w", "r", "go", "went")
    outcome = await hold_and_go_on(runner)
    assert outcome.output == ["nobody" if timeout == 0.02 else "went", "after"]


async def test_a_question_beside_a_timer_does_not_hold_the_timer_back(
    runner: InlineWorkflowRunner, registry: Registry
) -> None:
    @workflow(name="w", registry=registry)
    async def body(ctx: Any) -> Any:
        return await ctx.interrupt("?", timeout=3600, default="expired")

    assert (await runner.run("w", "r")).status == "interrupted"
    row = await runner.client.head(RunKey("w", "r"))
    assert row.wake_at is not None
    assert row.wake_at - row.updated_at == pytest.approx(3600, abs=60)


@pytest.mark.parametrize("answer, output", [("retry", "paid"), ("fail", "unknown")])
async def test_a_person_decides_about_a_call_whose_outcome_is_unknown(
    runner: InlineWorkflowRunner, registry: Registry, answer: str, output: str
) -> None:
    @workflow(name="w", registry=registry)
    async def body(ctx: Any) -> str:
        try:
            paid = await ctx.once("pay", lambda: "paid", on_unknown="ask")
        except OutcomeUnknown:
            paid = "unknown"
        await ctx.step("after", lambda: None)
        return str(paid)

    await leave_begun(runner.client, "pay#0")
    asked = await runner.run("w", "r")
    assert "outcome unknown" in asked.interrupts[0].value["question"]
    await runner.client.answer("w", "r", asked.interrupts[0].id, answer)
    assert (await runner.run("w", "r")).output == output


async def leave_begun(client: Client, key: str) -> None:
    """Leave a run behind whose process died right after it had announced a call."""
    from pyrula_core.adapter import Attempt

    await client.start("w", run_id="r")
    claimed = await client.engine.claim(RunKey("w", "r"))
    assert isinstance(claimed, Claimed)
    attempt = Attempt(client.store, claimed.row, clock=client.clock, lease_ttl=30)
    begun = Event(EventType.STEP_STARTED, {"key": key, "input": fingerprint((), {})})
    attempt.submit([begun]).result()
    client.engine.forsaken[claimed.row.owner or ""] = "owner_gone"


async def test_a_chain_can_start_from_any_run_id_and_a_parent_follows_it(
    runner: InlineWorkflowRunner, registry: Registry
) -> None:
    @workflow(name="child", registry=registry)
    async def child(ctx: Any, left: int) -> str:
        if left:
            await ctx.continue_as_new(left - 1)
        return f"end of {ctx.run_id}"

    @workflow(name="w", registry=registry)
    async def parent(ctx: Any) -> Any:
        return await ctx.run_child("child", 2, run_id="user:cart")

    assert (await runner.run("w", "r")).output == "end of user:cart:c2"


async def test_a_value_that_is_too_large_fails_its_step_or_its_run_with_a_code(
    runner: InlineWorkflowRunner, registry: Registry, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pyrula_core.values.payload_bytes_max", 1000)

    @workflow(name="w", registry=registry)
    async def body(ctx: Any) -> str:
        caught = ""
        try:
            await ctx.step("big", lambda: "x" * 2000)
        except Exception as error:
            caught = type(error).__name__
        return caught * 500

    with pytest.raises(DurableInvocationError) as failed:
        await runner.run("w", "r")
    assert failed.value.code == "payload_too_large"
    events = await runner.client.history("w", "r")
    assert [event.type for event in events][2:] == ["step:error", "run:error"]


async def test_a_step_that_waits_is_refused_with_a_word_on_what_to_do(
    runner: InlineWorkflowRunner, registry: Registry
) -> None:
    @workflow(name="w", registry=registry)
    async def body(ctx: Any) -> None:
        async def waits() -> None:
            await ctx.wait_for_signal("go")

        await ctx.step("waits", waits)

    with pytest.raises(DurableInvocationError, match="Let the body wait"):
        await runner.run("w", "r")


async def test_a_long_run_id_can_be_retried(
    runner: InlineWorkflowRunner, registry: Registry
) -> None:
    @workflow(name="w", registry=registry)
    async def body(ctx: Any) -> None:
        raise ValueError

    with pytest.raises(DurableInvocationError):
        await runner.run("w", "x" * 200)
    assert len(await runner.client.retry("w", "x" * 200)) <= 200


def test_fingerprints_are_the_same_in_every_version() -> None:
    assert fingerprint((), {}) == hashlib.blake2b(b"()", digest_size=8).hexdigest()
    assert fingerprint(("a", 1, None, 2.5, True), {}) == "ccec33bc92dc1f87"
    assert fingerprint(({"k": [1, (2, "x")], "s": {3, 1}},), {"limit": 3}) == "c07ff4d1c75072d0"
