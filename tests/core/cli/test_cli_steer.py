"""``pyrula runs pause | resume | cancel | answer``."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from pyrula_core import Client, open_store
from pyrula_core.errors import DurableInvocationError
from tests.core.cli.schemas import ROW, check_schema
from tests.core.cli.shell import Shell, finish, start
from tests.core.cli.states import APP, workflows


def test_a_run_is_paused_with_a_reason_and_resumed(shell: Shell) -> None:
    done = shell("runs", "pause", "queued-1", "--reason", "bank is down")
    assert done.stdout == "sync/queued-1: recorded, it is paused now\n"
    (event,) = shell.document("runs", "show", "queued-1", "--events")["events"][1:]
    assert (event["type"], event["fields"]) == ("run:paused", {"reason": "bank is down"})
    done = shell("runs", "resume", "queued-1")
    assert "is queued now and goes on in a process that serves 'sync'" in done.stdout


def test_a_run_is_cancelled_at_once_when_nobody_holds_it(shell: Shell) -> None:
    document = shell.document("runs", "cancel", "queued-1", "--reason", "withdrawn")
    assert list(document) == ["run"]
    check_schema(document["run"], ROW)
    assert document["run"]["status"] == "cancelled"
    again = shell("runs", "cancel", "queued-1")
    assert again.stdout == "sync/queued-1: nothing had to change, it is cancelled\n"


@pytest.mark.parametrize("verb, code", [("pause", "run_finished"), ("cancel", "run_finished")])
def test_a_finished_run_takes_nothing_more(verb: str, code: str, shell: Shell) -> None:
    assert shell.refusal("runs", verb, "complete-1", code=2)["code"] == code


def test_the_hint_fits_how_a_run_has_ended(shell: Shell) -> None:
    assert "retry" not in shell.refusal("runs", "pause", "complete-1", code=2)["hint"]
    hint = shell.refusal("runs", "cancel", "error-1", code=2)["hint"]
    assert "'pyrula runs retry sync/error-1'" in hint


def test_a_hint_that_names_a_call_names_the_command_too(shell: Shell) -> None:
    hint = shell.refusal("runs", "resume", "queued-1", code=2)["hint"]
    assert hint == "To answer a question, use client.answer ('pyrula runs answer')"


def test_a_failed_run_is_retried_and_the_new_run_is_named(shell: Shell) -> None:
    first = shell("runs", "retry", "error-1")
    assert first.exit_code == 0, first.stderr
    told, drive = first.stdout.splitlines()
    assert told == "sync/error-1: retried as sync/error-1:r, which is queued"
    assert "run_id='error-1:r'" in drive
    assert "start a worker" in drive
    assert shell("runs", "retry", "error-1").stdout == first.stdout
    document = shell.document("runs", "retry", "error-1")
    check_schema(document["run"], ROW)
    assert document["run"]["run_id"] == "error-1:r"


@pytest.mark.parametrize(
    "run_id, code", [("complete-1", "retry_not_failed"), ("cancelled-1", "retry_cancelled")]
)
def test_only_a_failed_run_is_retried(run_id: str, code: str, shell: Shell) -> None:
    assert shell.refusal("runs", "retry", run_id, code=2)["code"] == code


def test_a_graphs_run_is_retried_with_its_module_only(shell: Shell, tmp_path: Path) -> None:
    asyncio.run(fail_graph(shell.url))
    error = shell.refusal("runs", "retry", "graph-1", code=2)
    assert error["code"] == "not_registered"
    assert error["message"].startswith("the values of run graph-like/graph-1 belong to a wrapped")
    (tmp_path / "desk_retry.py").write_text(APP)
    words = ("runs", "retry", "graph-1", "--app", "desk_retry")
    code, out, err = finish(start("--store", shell.url, *words, cwd=tmp_path))
    assert (code, err) == (0, "")
    assert "graph-like/graph-1:r, which is queued" in out
    assert "bot.retry('graph-1')" in out


async def fail_graph(url: str) -> None:
    """Let the graph-like run fail on an answer of another type than it can take."""
    with open_store(url) as store:
        client = Client(store, registry=workflows())
        (question,) = (await client.describe("graph-like", "graph-1")).interrupts
        await client.answer("graph-like", "graph-1", question.id, "fail")
        with pytest.raises(DurableInvocationError):
            await client.result("graph-like", "graph-1")


def test_a_run_that_is_not_paused_is_not_resumed(shell: Shell) -> None:
    assert shell.refusal("runs", "resume", "queued-1", code=2)["code"] == "run_not_waiting"


def open_question(shell: Shell, run_id: str) -> str:
    (question,) = shell.document("runs", "show", run_id)["run"]["interrupts"]
    return str(question["id"])


def test_an_answer_is_recorded_once(shell: Shell) -> None:
    question = open_question(shell, "asking-1")
    done = shell("runs", "answer", "asking-1", question, "true")
    assert done.stdout.startswith("sync/asking-1: recorded, it is queued now")
    again = shell("runs", "answer", "asking-1", question, "true")
    assert again.stdout == "sync/asking-1: nothing had to change, it is queued\n"
    error = shell.refusal("runs", "answer", "asking-1", question, "false", code=2)
    assert error["code"] == "interrupt_conflict"


def test_an_answered_run_goes_on_with_the_answer(shell: Shell) -> None:
    shell("runs", "answer", "asking-1", open_question(shell, "asking-1"), "true")

    async def go_on() -> Any:
        with open_store(shell.url) as store:
            return await Client(store, registry=workflows()).result("sync", "asking-1")

    assert asyncio.run(go_on()).output is True


@pytest.mark.parametrize(
    "answer, code", [('"yes"', "interrupt_invalid_answer"), ("42", "interrupt_invalid_answer")]
)
def test_an_answer_that_does_not_fit_leaves_the_question_open(
    answer: str, code: str, shell: Shell
) -> None:
    question = open_question(shell, "asking-1")
    assert shell.refusal("runs", "answer", "asking-1", question, answer, code=2)["code"] == code
    assert open_question(shell, "asking-1") == question


def test_an_unknown_question_is_refused_and_the_open_one_named(shell: Shell) -> None:
    error = shell.refusal("runs", "answer", "asking-1", "nope", "true", code=2)
    assert error["code"] == "interrupt_not_found"
    assert open_question(shell, "asking-1") in error["message"]


@pytest.mark.parametrize("value", ["yes", "NaN", "{", "[" * 100_000], ids=range(4))
def test_an_answer_that_is_not_json_is_a_usage_error(value: str, shell: Shell) -> None:
    done = shell("runs", "answer", "asking-1", "any", value)
    assert done.exit_code == 2
    assert "VALUE_JSON" in done.stderr


def test_a_run_of_an_unknown_codec_is_not_answered_in_another_one(shell: Shell) -> None:
    question = open_question(shell, "graph-1")
    error = shell.refusal("runs", "answer", "graph-1", question, '"ok"', code=2)
    assert error["code"] == "not_registered"
    assert "graph/1" in error["message"]
    assert "--app" in error["hint"]


def test_the_module_that_registers_a_run_brings_its_codec(shell: Shell, tmp_path: Path) -> None:
    (tmp_path / "desk_app.py").write_text(APP)
    question = open_question(shell, "graph-1")
    words = ("answer", "graph-1", question, '"ok"', "--app", "desk_app:bot")
    code, out, err = finish(start("--store", shell.url, "runs", *words, cwd=tmp_path))
    assert (code, err) == (0, "")
    assert out.startswith("graph-like/graph-1: recorded, it is queued now")
    answered = shell.document("runs", "show", "graph-1", "--events")["events"][-1]
    assert answered["value"] == {"codec": "graph/1", "bytes": len('["graph", "ok"]')}


@pytest.mark.parametrize("target", ["no_such_module", "json:nope", "", ":x", ".relative"])
def test_an_app_that_cannot_be_imported_is_told(target: str, shell: Shell) -> None:
    words = ("runs", "answer", "asking-1", "any", "true", "--app", target)
    assert shell.refusal(*words, code=2)["code"] == "target_not_found"
