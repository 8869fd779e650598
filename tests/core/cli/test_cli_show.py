"""``pyrula runs show``: a run, its error, its questions, its journal."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import apsw
import pytest
from click.testing import CliRunner

from pyrula_core.cli import main
from pyrula_core.cli.notes import note_of
from pyrula_core.cli.showing import unread
from pyrula_core.events import Event, EventType
from pyrula_core.model import Capture
from tests.core.cli.schemas import ERROR, EVENT, INTERRUPT, RUN, check_schema
from tests.core.cli.shell import Shell, finish, start
from tests.core.cli.states import APP, SECRET


def test_a_failed_run_is_shown_with_both_codes_on_single_lines(shell: Shell) -> None:
    text = shell("runs", "show", "error-1").stdout
    lines = [line.strip() for line in text.splitlines()]
    assert "run         sync/error-1" in lines
    assert "status      error" in lines
    assert "thread      chat-1" in lines
    assert "error       code poison" in lines
    assert "user code card_declined" in lines
    assert r"pyrula_core.errors:Poison: card of acct-7\nwas declined" in lines


def test_a_run_is_shown_as_json_with_the_documented_schema(shell: Shell) -> None:
    document = shell.document("runs", "show", "error-1", "--events")
    assert list(document) == ["run", "events"]
    check_schema(document["run"], RUN)
    check_schema(document["run"]["error"], ERROR)
    for event in document["events"]:
        check_schema(event, EVENT)
    kinds = [event["type"] for event in document["events"]]
    assert kinds == ["run:created", "run:claimed", "step:done", "run:error"]
    assert document["run"]["error"]["user_code"] == "card_declined"
    assert list(shell.document("runs", "show", "error-1")) == ["run"]


def test_an_open_question_is_shown_with_the_id_that_answers_it(shell: Shell) -> None:
    (question,) = shell.document("runs", "show", "asking-1")["run"]["interrupts"]
    check_schema(question, INTERRUPT)
    assert question["question"]["value"] == {"refund": 42}
    assert question["response_schema"] == {"type": "boolean"}
    text = shell("runs", "show", "asking-1").stdout
    assert '{"refund": 42}' in text
    command = f"pyrula runs answer sync/asking-1 {question['id']} JSON --store {shell.url}\n"
    assert command in text


def test_the_command_that_answers_leaves_out_what_the_environment_says(
    shell: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYRULA_STORE", shell.url)
    text = CliRunner().invoke(main, ["runs", "show", "asking-1"]).stdout
    assert " JSON\n" in text
    assert "--store" not in text


def test_a_graphs_question_says_which_module_reads_and_answers_it(shell: Shell) -> None:
    text = shell("runs", "show", "graph-1").stdout
    shown = unread({"codec": "graph/1", "bytes": 7})
    assert shown == "graph/1, 7 bytes: add --app MODULE to read it"
    assert f" JSON --store {shell.url} --app MODULE\n" in text
    assert "MODULE is the Python module that calls durable()" in text


def test_a_graphs_values_are_read_with_its_module(shell: Shell, tmp_path: Path) -> None:
    (tmp_path / "desk_reader.py").write_text(APP)
    words = ("--store", shell.url, "--app", "desk_reader")
    code, out, err = finish(start("runs", "show", "graph-1", *words, cwd=tmp_path))
    assert (code, err) == (0, "")
    assert '            "ok?"\n' in out
    assert f" JSON --store {shell.url} --app desk_reader\n" in out
    full = ("show", "graph-1", *words, "--json", "--events", "--capture", "full")
    code, out, err = finish(start("runs", *full, cwd=tmp_path))
    created = json.loads(out)["events"][0]
    assert created["value"]["value"] == ["ok?"]


def test_a_module_that_does_not_wrap_the_runs_graph_is_told(shell: Shell) -> None:
    error = shell.refusal("runs", "show", "graph-1", "--app", "json", code=2)
    assert error["code"] == "not_registered"
    assert "'json' does not wrap a graph as 'graph-like' version '1'" in error["message"]


@pytest.mark.parametrize(
    "kind, fields, note",
    [
        (EventType.GRAPH_CHECKPOINT, {"checkpoint": "1f1ed4b9-0c31-6f89", "step": 0}, "step=0"),
        (EventType.STEP_DONE, {"key": "1.a", "attempts": 3}, "attempts=3"),
        (EventType.STEP_DONE, {"key": "1.a", "attempts": 1}, ""),
        (EventType.RUN_CLAIMED, {"owner": "a.0@vm:boot-1:7:9"}, "pid 7 on vm"),
    ],
)
def test_an_events_line_is_short(kind: EventType, fields: dict[str, Any], note: str) -> None:
    assert note_of(Event(kind, fields), Capture.REDACTED) == note


def test_values_are_shown_as_shapes_unless_they_are_asked_for(shell: Shell) -> None:
    words = ("runs", "show", "asking-1", "--events")
    for level in ("none", "shape", "redacted"):
        for form in ((), ("--json",)):
            assert SECRET not in shell(*words, "--capture", level, *form).output
    assert SECRET not in shell(*words).output
    assert SECRET in shell(*words, "--capture", "full").stdout
    assert '"password": "hunter2"' in shell(*words, "--capture", "full", "--json").stdout
    created = shell.document(*words)["events"][0]
    assert created["value"]["shape"] == "list[2](str[6], str[3])"


def test_a_question_is_hidden_at_the_levels_below_redacted(shell: Shell) -> None:
    for level, shown in (("none", "json/1, 13 bytes"), ("shape", "dict[1]")):
        text = shell("runs", "show", "asking-1", "--capture", level).stdout
        assert "refund" not in text
        assert shown in text


def test_codes_are_shown_at_every_level_and_messages_are_not(shell: Shell) -> None:
    for level in ("none", "shape"):
        text = shell("runs", "show", "error-1", "--capture", level).stdout
        assert "card_declined" in text
        assert "was declined" not in text
        assert "Traceback" not in text
    assert "Traceback" not in shell("runs", "show", "error-1").stdout
    assert "Traceback" in shell("runs", "show", "error-1", "--capture", "full").stdout


def test_what_another_codec_wrote_is_shown_as_codec_and_size(shell: Shell) -> None:
    text = shell("runs", "show", "graph-1", "--capture", "full").stdout
    assert "graph/1, 7 bytes" in text


def test_claims_and_requeues_are_counted(shell: Shell) -> None:
    run = shell.document("runs", "show", "lost-1")["run"]
    assert (run["attempts"], run["requeues"]) == (3, {"owner_gone": 2})
    text = shell("runs", "show", "lost-1").stdout
    assert "claimed 3, requeued 2 (owner_gone 2)" in text


def test_a_long_journal_is_shown_from_its_end(shell: Shell) -> None:
    for _ in range(30):
        shell("runs", "pause", "queued-1", "--reason", "again")
    done = shell("runs", "show", "queued-1")
    assert "The last 20 of 31 events: --events shows all" in done.stderr
    assert "run:created" not in done.stdout
    assert "run:created" in shell("runs", "show", "queued-1", "--events").stdout


def test_what_has_been_asked_of_a_run_is_shown_beside_its_status(shell: Shell) -> None:
    shell("runs", "pause", "lost-1")
    assert "running, pause requested" in shell("runs", "show", "lost-1").stdout
    assert "status      paused\n" in shell("runs", "show", "paused-1").stdout


@pytest.mark.parametrize(
    "words",
    [("show", "nope"), ("show", "nobody/complete-1"), ("show", "complete-1", "--name", "nobody")],
    ids=" ".join,
)
def test_a_run_that_is_not_there_is_told_with_its_code(
    words: tuple[str, ...], shell: Shell
) -> None:
    error = shell.refusal("runs", *words, code=2)
    assert error["code"] == "run_not_found"
    assert "runs list" in error["hint"]


def test_an_id_that_two_names_have_is_never_guessed(shell: Shell) -> None:
    for words in (("show", "twice"), ("cancel", "twice")):
        error = shell.refusal("runs", *words, code=2)
        assert error["code"] == "run_ambiguous"
        assert "graph-like, sync" in error["message"]
    assert shell.document("runs", "show", "twice", "--name", "sync")["run"]["name"] == "sync"
    assert shell.document("runs", "show", "sync/twice")["run"]["name"] == "sync"


@pytest.mark.parametrize("words", [("show", "error-1"), ("show", "error-1", "--events")])
def test_a_damaged_journal_is_reported_with_its_code(words: tuple[str, ...], shell: Shell) -> None:
    damage(shell.path, "error-1", seq=2)
    error = shell.refusal("runs", *words, code=3)
    assert (error["code"], error["type"]) == ("journal_corrupt", "JournalError")
    assert "event 2 of run sync/error-1" in error["message"]
    assert shell("runs", "list").exit_code == 0


def test_a_journal_that_is_gone_is_reported_with_its_code(shell: Shell) -> None:
    change(shell.path, "DELETE FROM event WHERE id / 16777216 = ?", "error-1")
    assert shell.refusal("runs", "show", "error-1", code=3)["code"] == "journal_corrupt"


def damage(path: Path, run_id: str, *, seq: int) -> None:
    """Flip bits of one byte in a stored event."""
    blob = "substr(frame, 1, 20) || x'ff' || substr(frame, 22)"
    update = f"UPDATE event SET frame = CAST({blob} AS BLOB) WHERE id = ? * 16777216 + {seq}"
    change(path, update, run_id)


def change(path: Path, statement: str, run_id: str) -> None:
    db = apsw.Connection(str(path))
    ((pk,),) = db.execute("SELECT pk FROM run WHERE run_id = ?", (run_id,)).fetchall()
    db.execute(statement, (pk,))
    assert db.changes() > 0
    db.close()
