"""Code that no longer matches its journal is caught before any effect, once, in readable words."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Sequence
from typing import Any

import pytest

from pyrula_core import Client, Context, EventType
from tests.core.cut_journals import Effects, cut, drive, finished, prefixes, refusal, steps

Script = Sequence[tuple[str, str]]
"""The steps of one sequence: their names and arguments."""

OLD: Script = [("load", "x"), ("charge", "x"), ("mail", "x")]


async def follow(ctx: Context, effects: Effects, script: Script) -> list[str]:
    """Take the steps of a script one after another."""
    return [await ctx.step(name, effects.work, name, given) for name, given in script]


def sequential(effects: Effects, script: Script) -> Any:
    async def body(ctx: Context) -> list[str]:
        return await follow(ctx, effects, script)

    return body


def gathered(effects: Effects, *scripts: Script) -> Any:
    async def body(ctx: Context) -> list[list[str]]:
        return await asyncio.gather(*(follow(ctx, effects, script) for script in scripts))

    return body


def swallowing(effects: Effects, script: Script) -> Any:
    """A body that lets nothing out, as a tool loop does."""

    async def body(ctx: Context) -> str:
        for name, given in script:
            with contextlib.suppress(Exception):
                await ctx.step(name, effects.work, name, given)
        return "all is well"

    return body


CHANGES: dict[str, tuple[Script, str, str]] = {
    "first renamed": ([("read", "x"), *OLD[1:]], "step 'load#0'", "step 'read#0'"),
    "middle renamed": ([OLD[0], ("pay", "x"), OLD[2]], "step 'charge#0'", "step 'pay#0'"),
    "last renamed": ([*OLD[:2], ("post", "x")], "step 'mail#0'", "step 'post#0'"),
    "two swapped": ([OLD[0], OLD[2], OLD[1]], "step 'charge#0'", "step 'mail#0'"),
    "argument changed": ([OLD[0], ("charge", "longer"), OLD[2]], "(str[6], str[1])", "str[6])"),
    "first removed": (OLD[1:], "step 'load#0'", "step 'charge#0'"),
    "middle removed": ([OLD[0], OLD[2]], "step 'charge#0'", "step 'mail#0'"),
    "last removed": (OLD[:2], "step 'mail#0'", "the end of the body"),
    "all removed": ([], "step 'load#0'", "the end of the body"),
    "one added in front": ([("log", "x"), *OLD], "step 'load#0'", "step 'log#0'"),
    "one added in the middle": (
        [OLD[0], ("log", "x"), *OLD[1:]],
        "step 'charge#0'",
        "step 'log#0'",
    ),
}


async def assert_refused(body: Any, effects: Effects, store: Any, recorded: str, asked: str) -> Any:
    """Drive a changed body, twice: one terminal error that shows both sides, and no effect."""
    error, journal = await refusal(body, store)
    assert error.code == "nondeterminism"
    assert recorded in str(error)
    assert asked in str(error)
    assert "journal, event" in str(error)
    assert "code now:" in str(error)
    assert effects.ran == [], "no effect comes before the difference is found"
    assert [event.type for event in journal].count(EventType.RUN_ERROR) == 1
    again, unchanged = await refusal(body, store)
    assert again.code == "nondeterminism"
    assert unchanged == journal, "it is not tried again"
    return journal


@pytest.mark.parametrize("change", CHANGES)
async def test_changed_sequential_code_is_refused(change: str) -> None:
    script, recorded, asked = CHANGES[change]
    _, events = await finished(sequential(Effects(), OLD))
    effects = Effects()
    store = await cut(events)
    journal = await assert_refused(sequential(effects, script), effects, store, recorded, asked)
    view = await Client(store).describe("order", "r")
    assert view.error is not None
    assert recorded in view.error.detail["recorded"]
    assert asked in view.error.detail["asked"]
    difference = journal[view.error.detail["seq"] - 1]
    assert difference.data["key"] in view.error.detail["recorded"]


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("branch", [0, 1])
async def test_changed_gathered_code_is_refused(
    change: str, branch: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pyrula_core.delivery.replay_stall_s", 0.2)
    script, recorded, asked = CHANGES[change]
    turns = Effects({"load": 3, "charge": 20, "mail": 7})
    _, events = await finished(gathered(turns, OLD, OLD))
    scripts = [OLD, OLD]
    scripts[branch] = script
    # A third sequence is new and legal; it must not begin before the others have been matched.
    effects = Effects()
    body = gathered(effects, *scripts, [("new", "x")])
    recorded = recorded.replace("'", f"'~{branch}/", 1) if script else recorded
    if change in ("first renamed", "first removed", "one added in front"):
        # Branches are known by what they ask first, so a changed one counts as new.
        asked = asked.partition("'")[2]
    elif script and not asked.startswith("the end"):
        asked = asked.replace("'", f"'~{branch}/", 1)
    if change in ("last removed", "all removed"):
        recorded, asked = "#0'", "code now:"
    await assert_refused(body, effects, await cut(events), recorded, asked)


async def test_a_step_added_at_the_end_is_legal() -> None:
    _, events = await finished(sequential(Effects(), OLD))
    effects = Effects()
    output = await drive(sequential(effects, [*OLD, ("log", "x")]), await cut(events))
    assert output == ["load", "charge", "mail", "log"]
    assert effects.ran == ["log"]


async def test_a_change_behind_the_end_of_the_journal_is_legal() -> None:
    """Only what was recorded binds: the rest of the code may change."""
    _, events = await finished(sequential(Effects(), OLD))
    new = [*OLD[:2], ("post", "y"), ("log", "y")]
    for prefix in prefixes(events[:-1]):
        effects = Effects()
        output = await drive(sequential(effects, new), await cut(prefix))
        assert output == ["load", "charge", "post", "log"]
        assert len(effects.ran) == 4 - len(steps(prefix))


@pytest.mark.parametrize("change", CHANGES)
async def test_a_body_that_swallows_every_exception_is_refused_all_the_same(change: str) -> None:
    script, recorded, asked = CHANGES[change]
    _, events = await finished(swallowing(Effects(), OLD))
    effects = Effects()
    await assert_refused(swallowing(effects, script), effects, await cut(events), recorded, asked)


async def test_a_step_that_became_something_else_is_refused() -> None:
    _, events = await finished(sequential(Effects(), [("pause", "x"), ("mail", "x")]))
    effects = Effects()

    async def body(ctx: Context) -> str:
        await ctx.sleep(0.001, name="pause")
        return str(await ctx.step("mail", effects.work, "mail", "x"))

    await assert_refused(body, effects, await cut(events), "step 'pause#0'", "timer 'pause#0'")


async def test_a_removed_call_that_was_only_begun_is_refused() -> None:
    """Its outcome is unknown: a body that no longer asks for it would forget that."""

    def body_with(effects: Effects, *, charges: bool) -> Any:
        async def body(ctx: Context) -> str:
            if charges:
                await ctx.once("charge", effects.work, "charge")
            return "done"

        return body

    _, events = await finished(body_with(Effects(), charges=True))
    begun = [event for event in events if event.type is not EventType.STEP_DONE]
    effects = Effects()
    body = body_with(effects, charges=False)
    await assert_refused(body, effects, await cut(begun), "step 'charge#0'", "the end of the body")


async def test_a_removed_question_that_is_open_is_refused() -> None:
    async def asking(ctx: Context) -> str:
        return str(await ctx.interrupt("may I?"))

    async def silent(ctx: Context) -> str:
        return "nobody was asked"

    store = await cut((await finished(silent))[1])
    with pytest.raises(AssertionError, match="interrupted"):
        await drive(asking, store)
    events = await Client(store).history("order", "r")
    asked = await cut(events)
    effects = Effects()
    wanted = "interrupt 'interrupt#0'"
    await assert_refused(silent, effects, asked, wanted, "the end of the body")


async def test_a_removed_branch_that_the_others_wait_behind_is_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("pyrula_core.delivery.replay_stall_s", 0.2)
    _, events = await finished(gathered(Effects(), OLD, OLD, OLD))
    effects = Effects()
    body = gathered(effects, OLD, OLD)
    await assert_refused(body, effects, await cut(events), "step '~2/", "code now:")
