"""What a plain workflow can rely on, end to end, on the memory store and on SQLite."""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import Iterator
from enum import Enum, StrEnum
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel

from pyrula_core import (
    Client,
    DurableInvocationCancelled,
    DurableInvocationError,
    DurableInvocationTimeout,
    Fatal,
    InlineWorkflowRunner,
    InterruptConflictError,
    InterruptNotFoundError,
    InvalidAnswerError,
    NotRegisteredError,
    Poison,
    Registry,
    RetryPolicy,
    RunConflictError,
    RunFinishedError,
    RunNotFoundError,
    RunNotWaitingError,
    Transient,
    agent,
    current_run,
    open_store,
    step,
    workflow,
)
from pyrula_core.model import RunKey
from pyrula_core.ports import Store


@pytest.fixture(params=["memory", "sqlite"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Store]:
    url = "memory://" if request.param == "memory" else f"sqlite:///{tmp_path}/runs.db"
    opened = open_store(url)
    yield opened
    opened.close()


@pytest.fixture
def registry() -> Registry:
    return Registry()


@pytest.fixture
def runner(store: Store, registry: Registry) -> InlineWorkflowRunner:
    return InlineWorkflowRunner(store, registry=registry)


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


async def types_of(runner: InlineWorkflowRunner, run_id: str) -> list[str]:
    return [str(event.type) for event in await runner.client.history("w", run_id)]


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
    ("error", "code", "user_code"),
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
    ("value", "path"),
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
        except Exception as error:  # noqa: BLE001
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


async def test_a_durable_sleep_is_recorded_and_waited_for(
    runner: InlineWorkflowRunner, registry: Registry
) -> None:
    @workflow(name="w", registry=registry)
    async def body(ctx: Any) -> str:
        await ctx.sleep(0.02)
        return "awake"

    assert (await runner.run("w", "r")).output == "awake"
    assert (await types_of(runner, "r"))[2:4] == ["timer:set", "timer:fired"]


async def test_a_long_sleep_frees_the_process_and_is_shown_as_waiting(
    runner: InlineWorkflowRunner, registry: Registry
) -> None:
    @workflow(name="w", registry=registry)
    async def body(ctx: Any) -> None:
        await ctx.sleep(3600)

    assert (await runner.run("w", "r")).status == "waiting"
    row = await runner.client.head(RunKey("w", "r"))
    assert row.wake_at is not None
    assert row.owner is None


async def test_signals_are_read_once_and_in_order(
    runner: InlineWorkflowRunner, registry: Registry
) -> None:
    @workflow(name="w", registry=registry)
    async def body(ctx: Any) -> list[Any]:
        return [await ctx.wait_for_signal("go") for _ in range(3)]

    assert (await runner.run("w", "r")).status == "waiting"
    for value in (1, {"x": 2}):
        await runner.client.signal("w", "r", "go", value)
    assert (await runner.run("w", "r")).status == "waiting"
    await runner.client.signal("w", "r", "go", None, dedupe="s3")
    await runner.client.signal("w", "r", "go", None, dedupe="s3")
    assert (await runner.run("w", "r")).output == [1, {"x": 2}, None]


async def test_waiting_for_a_signal_can_time_out(
    runner: InlineWorkflowRunner, registry: Registry
) -> None:
    @workflow(name="w", registry=registry)
    async def body(ctx: Any) -> str:
        try:
            await ctx.wait_for_signal("go", timeout=0.02)
        except TimeoutError:
            return "nobody"
        return "no"

    assert (await runner.run("w", "r")).output == "nobody"


async def test_cancel_ends_a_resting_run_and_a_swallowed_cancel_still_counts(
    runner: InlineWorkflowRunner, registry: Registry
) -> None:
    cleaned: list[str] = []
    client = runner.client

    async def cancel_us() -> None:
        await client.cancel("w", "r", reason="enough")

    @workflow(name="w", registry=registry)
    async def body(ctx: Any) -> str:
        try:
            await ctx.step("cancel", cancel_us)
            await ctx.step("after", cleaned.append, "must not run")
        except BaseException:  # noqa: BLE001
            cleaned.append("swallowed")
        finally:
            cleaned.append("finally")
        return "swallowed"

    with pytest.raises(DurableInvocationCancelled):
        await runner.run("w", "r")
    assert cleaned == ["swallowed", "finally"]
    assert (await client.describe("w", "r")).status == "cancelled"
    await client.cancel("w", "r")


async def test_pause_stops_at_the_next_boundary_and_resume_goes_on(
    runner: InlineWorkflowRunner, registry: Registry
) -> None:
    client, effects = runner.client, []

    async def pause_us() -> None:
        effects.append("one")
        await client.pause("w", "r")

    @workflow(name="w", registry=registry)
    async def body(ctx: Any) -> str:
        await ctx.step("one", pause_us)
        await ctx.step("two", effects.append, "two")
        return "done"

    assert (await runner.run("w", "r")).status == "paused"
    assert effects == ["one"]
    assert (await client.describe("w", "r")).status == "paused"
    await client.resume("w", "r")
    with pytest.raises(RunNotWaitingError):
        await client.resume("w", "r")
    assert (await runner.run("w", "r")).output == "done"
    assert effects == ["one", "two"]


async def test_what_a_sibling_did_while_the_run_was_paused_is_recorded(
    runner: InlineWorkflowRunner, registry: Registry
) -> None:
    client, effects = runner.client, []

    async def pause_us() -> None:
        await client.pause("w", "r")

    async def slow() -> str:
        await asyncio.sleep(0.05)
        effects.append("slow")
        return "slow"

    @workflow(name="w", registry=registry)
    async def body(ctx: Any) -> list[Any]:
        return list(await asyncio.gather(ctx.step("pause", pause_us), ctx.step("slow", slow)))

    assert (await runner.run("w", "r")).status == "paused"
    await client.resume("w", "r")
    assert (await runner.run("w", "r")).output == [None, "slow"]
    assert effects == ["slow"]


async def test_continue_as_new_is_followed_to_the_run_with_the_result(
    runner: InlineWorkflowRunner, registry: Registry
) -> None:
    @workflow(name="w", registry=registry)
    async def body(ctx: Any, left: int) -> str:
        if left:
            await ctx.continue_as_new(left - 1)
        return f"done by {ctx.run_id}"

    outcome = await runner.run("w", "r", 2)
    assert outcome.output == "done by r:c2"
    assert (await runner.client.describe("w", "r")).continued_to == "r:c1"


async def test_bad_calls_are_refused_with_a_code_and_a_next_action(
    runner: InlineWorkflowRunner, registry: Registry
) -> None:
    client = runner.client

    @workflow(name="w", registry=registry)
    async def body(ctx: Any, n: int) -> Any:
        return await ctx.interrupt("?", response_schema={"type": "integer"})

    with pytest.raises(NotRegisteredError) as unknown:
        await client.start("nobody", 1)
    with pytest.raises(RunNotFoundError) as missing:
        await client.describe("w", "nope")
    asked = await runner.run("w", "r", 1)
    question = asked.interrupts[0].id
    with pytest.raises(RunConflictError) as conflict:
        await client.start("w", 2, run_id="r")
    with pytest.raises(InterruptNotFoundError) as stranger:
        await client.answer("w", "r", "0" * 32, 1)
    with pytest.raises(InvalidAnswerError) as invalid:
        await client.answer("w", "r", question, "one")
    await client.answer("w", "r", question, 1)
    await client.answer("w", "r", question, 1)
    with pytest.raises(InterruptConflictError) as other:
        await client.answer("w", "r", question, 2)
    assert (await runner.run("w", "r")).output == 1
    with pytest.raises(RunFinishedError) as finished:
        await client.signal("w", "r", "go")
    codes = [
        each.value.code
        for each in (unknown, missing, conflict, stranger, invalid, other, finished)
    ]
    assert codes == [
        "not_registered",
        "run_not_found",
        "run_conflict",
        "interrupt_not_found",
        "interrupt_invalid_answer",
        "interrupt_conflict",
        "run_finished",
    ]
    for each in (unknown, missing, conflict, stranger, invalid, other, finished):
        assert each.value.hint


@pytest.mark.parametrize("run_id", ["", "a b", "x" * 201, "ü", "a/b"])
async def test_an_illegal_run_id_is_refused(
    runner: InlineWorkflowRunner, registry: Registry, run_id: str
) -> None:
    @workflow(name="w", registry=registry)
    async def body(ctx: Any) -> None: ...

    with pytest.raises(ValueError, match="run_id"):
        await runner.run("w", run_id)


async def test_start_is_idempotent_by_run_id_and_by_idempotency_key(
    runner: InlineWorkflowRunner, registry: Registry
) -> None:
    @workflow(name="w", registry=registry)
    async def body(ctx: Any, n: int) -> int:
        return n

    client = runner.client
    assert await client.start("w", 1, run_id="r") == await client.start("w", 1, run_id="r")
    first = await client.start("w", 1, idempotency_key="k")
    assert await client.start("w", 1, idempotency_key="k") == first
    with pytest.raises(RunConflictError):
        await client.start("w", 2, idempotency_key="k")


async def test_a_timeout_leaves_the_run_going_and_a_second_call_gets_its_result(
    store: Store, registry: Registry
) -> None:
    gate = asyncio.Event()
    effects: list[str] = []

    async def slow() -> str:
        effects.append("slow")
        await gate.wait()
        return "slow"

    @workflow(name="w", registry=registry)
    async def body(ctx: Any) -> str:
        return str(await ctx.step("slow", slow))

    client = Client(store, registry=registry)
    with pytest.raises(DurableInvocationTimeout):
        await client.run_and_await("w", run_id="r", timeout=0.05)
    gate.set()
    outcome = await client.run_and_await("w", run_id="r", timeout=30)
    assert (outcome.output, effects) == ("slow", ["slow"])


async def test_two_callers_of_one_run_drive_it_once(store: Store, registry: Registry) -> None:
    effects: list[str] = []

    @workflow(name="w", registry=registry)
    async def body(ctx: Any) -> str:
        await ctx.step("x", effects.append, "x")
        await ctx.step("y", asyncio.sleep, 0.01)
        return "done"

    clients = [Client(store, registry=registry) for _ in range(3)]
    outcomes = await asyncio.gather(
        *(client.run_and_await("w", run_id="r") for client in clients for _ in range(2))
    )
    assert {outcome.output for outcome in outcomes} == {"done"}
    assert effects == ["x"]


async def test_a_page_of_runs_is_newest_first_and_can_be_filtered(
    runner: InlineWorkflowRunner, registry: Registry
) -> None:
    @workflow(name="w", registry=registry)
    async def body(ctx: Any, fail: bool) -> None:
        if fail:
            raise ValueError

    for number in range(5):
        if number % 2:
            with pytest.raises(DurableInvocationError):
                await runner.run("w", f"r{number}", True)
        else:
            await runner.run("w", f"r{number}", False)
    page = await runner.client.list(name="w", limit=2)
    rest = await runner.client.list(name="w", limit=10, cursor=page.cursor)
    failed = await runner.client.list(status="error")
    assert [row.key.run_id for row in page.rows] == ["r4", "r3"]
    assert [row.key.run_id for row in rest.rows] == ["r2", "r1", "r0"]
    assert [row.key.run_id for row in failed.rows] == ["r3", "r1"]
    with pytest.raises(ValueError, match="nonsense"):
        await runner.client.list(status="nonsense")


async def test_a_durable_call_from_a_foreign_thread_says_what_is_wrong() -> None:
    with pytest.raises(RuntimeError, match="no durable run is active"):
        current_run()
