"""``pyrula runs list``, and which store it looks at."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import apsw
import pytest
from click.testing import CliRunner

from pyrula_core import open_store
from pyrula_core.cli import main
from pyrula_core.cli.owner import owner_alive, owner_text
from tests.core.cli.schemas import ROW, check_schema
from tests.core.cli.shell import ROOT, Shell, columns

OWNED = """
import asyncio
from pyrula_core import Client, Engine, Registry, open_store, workflow
from pyrula_core.model import RunKey

registry = Registry()

@workflow(name="w", registry=registry)
async def body(ctx): ...

async def main():
    with open_store({url!r}) as store:
        await Client(store, registry=registry).start("w", run_id="r-1")
        await Engine(store, registry).claim(RunKey("w", "r-1"))

asyncio.run(main())
"""


def test_a_listing_shows_every_run_newest_first(shell: Shell) -> None:
    header, *rows = columns(shell("runs", "list").stdout)
    assert header == ["RUN", "ID", "NAME", "KIND", "STATUS", "VERSION", "EVENTS", "AGE", "ERROR"]
    shown = {row[0]: row[1:6] for row in rows}
    assert list(shown)[-1] == "complete-1"
    assert shown["complete-1"] == ["sync", "workflow", "complete", "7", "4"]
    assert shown["asking-1"][2] == "interrupted"
    assert shown["queued-1"][2:] == ["queued", "7", "1"]
    assert shown["paused-1"][2] == "paused"
    assert shown["cancelled-1"][2] == "cancelled"
    assert shown["graph-1"][:2] == ["graph-like", "agent"]


def test_a_listing_shows_both_codes_of_a_failed_run(shell: Shell) -> None:
    (row,) = columns(shell("runs", "list", "--status", "error").stdout)[1:]
    assert row[0] == "error-1"
    assert row[-2:] == ["poison", "card_declined"]


def test_a_listing_as_json_has_the_documented_schema(shell: Shell) -> None:
    document = shell.document("runs", "list")
    assert list(document) == ["runs", "cursor"]
    assert document["cursor"] is None
    for row in document["runs"]:
        check_schema(row, ROW)
    failed = next(row for row in document["runs"] if row["run_id"] == "error-1")
    assert (failed["error_code"], failed["user_code"]) == ("poison", "card_declined")
    assert failed["thread"] == "chat-1"


def test_a_listing_is_narrowed_by_name_and_by_several_statuses(shell: Shell) -> None:
    document = shell.document("runs", "list", "--name", "graph-like")
    assert {row["name"] for row in document["runs"]} == {"graph-like"}
    wanted = ["--status", "paused", "--status", "complete"]
    document = shell.document("runs", "list", *wanted)
    assert [row["run_id"] for row in document["runs"]] == ["paused-1", "complete-1"]


def test_the_cursor_of_a_page_leads_to_the_next_one(shell: Shell) -> None:
    everything = [row["run_id"] for row in shell.document("runs", "list")["runs"]]
    seen: list[str] = []
    cursor: list[str] = []
    while True:
        page = shell.document("runs", "list", "--limit", "4", *cursor)
        seen += [row["run_id"] for row in page["runs"]]
        if page["cursor"] is None:
            break
        assert f"--cursor {page['cursor']}" in shell("runs", "list", "--limit", "4", *cursor).stderr
        cursor = ["--cursor", page["cursor"]]
    assert seen == everything


def test_a_cursor_that_no_page_gave_is_refused(shell: Shell) -> None:
    error = shell.refusal("runs", "list", "--cursor", "next", code=2)
    assert error["type"] == "CallerError"


def test_an_unknown_status_is_a_usage_error_that_lists_the_known_ones(shell: Shell) -> None:
    done = shell("runs", "list", "--status", "done")
    assert done.exit_code == 2
    assert "'interrupted'" in done.stderr


def test_a_listing_that_matches_nothing_says_so_on_stderr(shell: Shell) -> None:
    done = shell("runs", "list", "--name", "nobody")
    assert (done.exit_code, done.stdout) == (0, "")
    assert "No run matches" in done.stderr
    assert shell.document("runs", "list", "--name", "nobody") == {"runs": [], "cursor": None}


def test_an_empty_store_is_told_from_a_missing_one(tmp_path: Path) -> None:
    path = tmp_path / "runs.db"
    open_store(f"sqlite:///{path}").close()
    done = Shell(path)("runs", "list")
    assert (done.exit_code, done.stdout) == (0, "")
    assert "There are no runs yet" in done.stderr


@pytest.mark.parametrize(
    "words", [("runs", "list"), ("runs", "show", "r-1"), ("runs", "cancel", "r-1")], ids=" ".join
)
def test_a_missing_store_is_an_error_and_is_not_created(
    words: tuple[str, ...], tmp_path: Path
) -> None:
    error = Shell(tmp_path / "runs.db").refusal(*words, code=3)
    assert error["code"] == "store_missing"
    assert "--store" in error["hint"]
    assert not list(tmp_path.iterdir())


def test_an_empty_file_stays_empty(tmp_path: Path) -> None:
    path = tmp_path / "runs.db"
    path.touch()
    assert Shell(path).refusal("runs", "list", code=3)["code"] == "store_missing"
    assert path.stat().st_size == 0


def test_the_default_store_is_the_file_of_the_working_directory(
    shell: Shell, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert CliRunner().invoke(main, ["runs", "list"]).exit_code == 3
    shell.path.rename(tmp_path / "pyrula.db")
    assert CliRunner().invoke(main, ["runs", "list"]).exit_code == 0


def test_the_environment_names_the_store(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYRULA_STORE", shell.url)
    done = CliRunner().invoke(main, ["runs", "list", "--json"])
    assert json.loads(done.stdout)["runs"]


@pytest.mark.parametrize("words", [("runs", "STORE", "list"), ("runs", "list", "STORE")])
def test_the_store_may_stand_after_a_command_and_wins_there(
    words: tuple[str, ...], shell: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYRULA_STORE", "sqlite:////nowhere/environment.db")
    before = ["--store", "sqlite:////nowhere/before.db"]
    chosen = [part for word in words for part in split(word, shell.url)]
    for head in ([], before):
        done = CliRunner().invoke(main, [*head, *chosen])
        assert "complete-1" in done.stdout, done.stderr


def split(word: str, url: str) -> list[str]:
    return ["--store", url] if word == "STORE" else [word]


def test_the_namespace_may_stand_after_a_command(shell: Shell) -> None:
    assert "'other'" in shell("runs", "list", "--namespace", "other").stderr


def test_a_running_run_whose_owner_is_dead_is_marked(tmp_path: Path) -> None:
    shell = Shell(tmp_path / "runs.db")
    script = OWNED.format(url=shell.url)
    subprocess.run([sys.executable, "-c", script], check=True, timeout=60, cwd=ROOT)
    assert "running (owner dead)" in shell("runs", "list").stdout
    (row,) = shell.document("runs", "list")["runs"]
    assert (row["status"], row["owner_alive"]) == ("running", False)
    assert re.search(r"owner +pid \d+ on \S+ \(dead\)\n", shell("runs", "show", "r-1").stdout)


def test_an_owner_that_lives_and_one_that_nobody_knows(shell: Shell) -> None:
    rows = {row["run_id"]: row for row in shell.document("runs", "list")["runs"]}
    assert rows["lost-1"]["owner_alive"] is True
    assert rows["queued-1"]["owner_alive"] is None
    assert owner_alive("somebody") is None
    assert owner_alive("a@elsewhere:boot:7:9") is None
    assert owner_text("somebody") == "somebody"
    assert owner_text("a@elsewhere:boot:7:9") == "pid 7 on elsewhere"


def test_namespaces_are_apart(shell: Shell) -> None:
    done = shell("--namespace", "other", "runs", "list")
    assert "There are no runs yet" in done.stderr
    assert "'other'" in done.stderr


def test_a_foreign_file_is_refused_and_left_as_it_was(tmp_path: Path) -> None:
    path = tmp_path / "mail.db"
    db = apsw.Connection(str(path))
    db.execute("CREATE TABLE mail (id INTEGER PRIMARY KEY)")
    db.close()
    before = path.read_bytes()
    error = Shell(path).refusal("runs", "list", code=3)
    assert error["code"] == "not_a_pyrula_store"
    assert path.read_bytes() == before


def test_a_url_that_is_not_understood_is_refused() -> None:
    done = CliRunner().invoke(main, ["--store", "ftp://me:pw@host/x", "runs", "list"])
    assert done.exit_code == 3
    assert done.stderr.startswith("error[store_url_invalid]: ")
    assert "pw" not in done.output
