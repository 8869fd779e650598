"""Steps of a plain workflow: what is recorded, what is served, what ends a run."""

from __future__ import annotations

import asyncio
import dataclasses
from enum import Enum, StrEnum
from typing import Any

import pytest
from pydantic import BaseModel

from pyrula_core import (
    DurableInvocationError,
    Fatal,
    InlineWorkflowRunner,
    Poison,
    Registry,
    RetryPolicy,
    Transient,
    agent,
    current_run,
    step,
    workflow,
)
from pyrula_core.model import RunKey
from tests.core.journals import types_of


class Order(BaseModel):
    id: int
    note: str = ""


@dataclasses.dataclass
class Line:
    sku: str
    count: int


class Colour(StrEnum):
    RED = "red"


class Level(Enum):
    HIGH = 3


async def test_a_completed_run_returns_its_output_again_without_running(
    runner: InlineWorkflowRunner, registry: Registry
) -> None:
    calls: list[int] = []

    @workflow(name="w", registry=registry)
    async def body(ctx: Any, n: int) -> int:
        calls.append(n)
        return await ctx.step("double", lambda: n * 2)

    first = await runner.run("w", "r", 4)
    again = await runner.run("w", "r", 4)
    assert (first.status, first.output, again.output, calls) == ("complete", 8, 8, [4])
    assert await types_of(runner, "r") == [
        "run:created",
        "run:claimed",
        "step:done",
        "run:complete",
    ]


async def test_a_caught_failure_is_recorded_and_replays_without_running_the_step(
    runner: InlineWorkflowRunner, registry: Registry
) -> None:
    calls: list[str] = []

    def down() -> None:
        calls.append("down")
        raise ConnectionError("upstream")

    @workflow(name="w", registry=registry)
    async def body(ctx: Any) -> str:
        try:
            await ctx.step("pull", down)
        except ConnectionError as error:
            reason = str(error)
        answer = await ctx.interrupt("go on?")
        return f"{reason} {answer}"

    asked = await runner.run("w", "r")
    await runner.client.answer("w", "r", asked.interrupts[0].id, "yes")
    done = await runner.run("w", "r")
    assert (done.output, calls) == ("upstream yes", ["down"])


async def test_a_failure_that_ends_the_body_is_not_recorded_as_a_step(
    runner: InlineWorkflowRunner, registry: Registry
) -> None:
    @workflow(name="w", registry=registry)
    async def body(ctx: Any) -> None:
        await ctx.step("pull", broken)

    def broken() -> None:
        raise LookupError("no such account")

    with pytest.raises(DurableInvocationError) as caught:
        await runner.run("w", "r")
    assert (caught.value.code, caught.value.run_id) == ("internal", "r")
    assert isinstance(caught.value.__cause__, LookupError)
    assert await types_of(runner, "r") == ["run:created", "run:claimed", "run:error"]
    view = await runner.client.describe("w", "r")
    assert view.error is not None
    assert view.error.message == "no such account"
    assert view.error.detail["steps"] == ["pull#0"]


@pytest.mark.parametrize(
    "error, code, user_code",
    [
        (Poison("bad input", code="bad.input"), "poison", "bad.input"),
        (Fatal("stop", code="stop:now"), "fatal", "stop:now"),
        (Transient("later", code="later"), "internal", "later"),
        (ValueError("v"), "internal", None),
    ],
)
async def test_the_run_keeps_the_code_of_what_ended_it(
    runner: InlineWorkflowRunner,
    registry: Registry,
    error: Exception,
    code: str,
    user_code: str | None,
) -> None:
    @workflow(name="w", registry=registry)
    async def body(ctx: Any) -> None:
        raise error

    with pytest.raises(DurableInvocationError) as caught:
        await runner.run("w", "r")
    assert (caught.value.code, caught.value.user_code) == (code, user_code)
    row = await runner.client.head(RunKey("w", "r"))
    assert (row.error_code, row.user_code) == (code, user_code)


async def test_an_agent_that_raises_ends_with_agent_error(
    runner: InlineWorkflowRunner, registry: Registry
) -> None:
    @agent(name="w", registry=registry)
    async def body(ctx: Any) -> None:
        raise RuntimeError("no")

    with pytest.raises(DurableInvocationError) as caught:
        await runner.run("w", "r")
    assert caught.value.code == "agent_error"


@pytest.mark.parametrize(
    "value, path",
    [
        ({"a": [1, float("nan")]}, "$.a[1]"),
        ([float("inf")], "$[0]"),
        ({"level": Level.HIGH}, "$.level"),
        ({1: "x"}, "$"),
        ({"x": object()}, "$.x"),
        ({"x": {1, 2}}, "$.x"),
    ],
)
async def test_a_return_value_that_is_not_json_ends_the_run_naming_its_place(
    runner: InlineWorkflowRunner, registry: Registry, value: object, path: str
) -> None:
    @workflow(name="w", registry=registry)
    async def body(ctx: Any) -> object:
        return value

    with pytest.raises(DurableInvocationError) as caught:
        await runner.run("w", "r")
    assert caught.value.code == "result_not_serializable"
    assert caught.value.detail["path"] == path


async def test_a_step_result_that_is_not_json_fails_the_step_not_later_code(
    runner: InlineWorkflowRunner, registry: Registry
) -> None:
    calls: list[str] = []

    @workflow(name="w", registry=registry)
    async def body(ctx: Any) -> str:
        try:
            await ctx.step("make", lambda: {"at": object()}, retry=RetryPolicy(max_attempts=5))
        except Exception as error:
            calls.append(type(error).__name__)
            return str(error)
        return "no"

    outcome = await runner.run("w", "r")
    assert calls == ["ResultNotSerializable"]
    assert "$.at" in outcome.output
    assert "builtins:object" in outcome.output


@pytest.mark.parametrize(
    "value",
    [Order(id=7, note="x"), Line("a", 2), Colour.RED, (1, (2, "x")), {"$pyrula": 1}, [None, True]],
)
async def test_models_dataclasses_and_str_enums_come_back_as_they_were(
    runner: InlineWorkflowRunner, registry: Registry, value: object
) -> None:
    seen: list[object] = []

    @workflow(name="w", registry=registry)
    async def body(ctx: Any) -> object:
        got = await ctx.step("make", lambda: value)
        seen.append(got)
        await ctx.interrupt("hold")
        return got

    asked = await runner.run("w", "r")
    await runner.client.answer("w", "r", asked.interrupts[0].id, None)
    done = await runner.run("w", "r")
    assert seen == [value, value]
    assert done.output == value
    assert type(done.output) is type(value)


async def test_retries_count_the_first_try_and_stop_at_poison(
    runner: InlineWorkflowRunner, registry: Registry
) -> None:
    tries: list[str] = []
    policy = RetryPolicy(max_attempts=3, initial_backoff=0.0)

    def flaky(kind: str) -> str:
        tries.append(kind)
        if kind == "poison":
            raise Poison("never")
        if tries.count(kind) < 3:
            raise ConnectionError(kind)
        return kind

    @workflow(name="w", registry=registry)
    async def body(ctx: Any) -> str:
        value = await ctx.step("flaky", flaky, "flaky", retry=policy)
        try:
            await ctx.step("poison", flaky, "poison", retry=policy)
        except Poison:
            return str(value)
        return "no"

    outcome = await runner.run("w", "r")
    assert (outcome.output, tries) == ("flaky", ["flaky", "flaky", "flaky", "poison"])


async def test_an_async_step_that_takes_too_long_raises_timeout_error(
    runner: InlineWorkflowRunner, registry: Registry
) -> None:
    @workflow(name="w", registry=registry)
    async def body(ctx: Any) -> str:
        try:
            await ctx.step("slow", asyncio.sleep, 30, timeout=0.01)
        except TimeoutError:
            return "late"
        return "no"

    assert (await runner.run("w", "r")).output == "late"


async def test_a_sync_step_with_timeout_and_retry_is_refused_before_any_effect(
    runner: InlineWorkflowRunner, registry: Registry
) -> None:
    calls: list[int] = []

    @workflow(name="w", registry=registry)
    async def body(ctx: Any) -> None:
        await ctx.step("x", calls.append, 1, timeout=1, retry=RetryPolicy())

    with pytest.raises(DurableInvocationError) as caught:
        await runner.run("w", "r")
    assert isinstance(caught.value.__cause__, ValueError)
    assert calls == []


async def test_report_28_a_cancelled_error_raised_inside_a_step_is_an_ordinary_failure(
    runner: InlineWorkflowRunner, registry: Registry
) -> None:
    async def gives_up() -> None:
        raise asyncio.CancelledError

    @workflow(name="w", registry=registry)
    async def body(ctx: Any) -> str:
        try:
            await ctx.step("call", gives_up)
        except RuntimeError as error:
            return str(error)
        return "no"

    assert "by itself" in (await runner.run("w", "r")).output


async def test_sub_steps_of_a_step_are_served_when_the_step_is_tried_again(
    runner: InlineWorkflowRunner, registry: Registry
) -> None:
    effects: list[str] = []

    async def outer() -> str:
        await step("inner", effects.append, "inner")
        effects.append("outer")
        if effects.count("outer") < 3:
            raise ConnectionError
        return current_run().idempotency_key

    @workflow(name="w", registry=registry)
    async def body(ctx: Any) -> str:
        return await ctx.step(
            "outer", outer, retry=RetryPolicy(max_attempts=5, initial_backoff=0.0)
        )

    outcome = await runner.run("w", "r")
    assert effects == ["inner", "outer", "outer", "outer"]
    assert outcome.output == "w/r/outer#0"


async def test_now_random_and_uuid_are_the_same_on_replay(
    runner: InlineWorkflowRunner, registry: Registry
) -> None:
    seen: list[tuple[Any, ...]] = []

    @workflow(name="w", registry=registry)
    async def body(ctx: Any) -> None:
        await ctx.step("x", lambda: 1)
        seen.append((ctx.now(), ctx.random(), ctx.random(), ctx.uuid()))
        await ctx.interrupt("hold")

    asked = await runner.run("w", "r")
    await runner.client.answer("w", "r", asked.interrupts[0].id, None)
    await runner.run("w", "r")
    assert seen[0] == seen[1]
    assert len(set(seen[0])) == 4
