"""``pyrula runs pause | resume | cancel | answer``."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from pyrula_core import Client, open_store
from tests.core.cli.schemas import ROW, check_schema
from tests.core.cli.shell import Shell, finish, start
from tests.core.cli.states import workflows


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
