"""The program itself: what it loads, where it prints, how it ends."""

from __future__ import annotations

import asyncio
import os
import pty
import subprocess
import sys
from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner

from pyrula_core import Client, Registry, errors, open_store, workflow
from pyrula_core.cli import main
from pyrula_core.cli.complaint import exit_code
from pyrula_core.cli.payloads import payload_text, shape_of
from pyrula_core.cli.root import Root
from pyrula_core.cli.text import age, moment, printable, size
from pyrula_core.events import Payload
from pyrula_core.model import Capture
from tests.core.cli.shell import ROOT, Shell, finish, start

LOADED = """
import sys
from pyrula_core.cli import main
try:
    main(prog_name="pyrula")
finally:
    print(*sorted({name.split(".")[0] for name in sys.modules}), file=sys.stderr)
"""


@pytest.mark.parametrize("words", [("list", "--json"), ("show", "graph-1")], ids=" ".join)
def test_looking_at_runs_loads_no_framework(words: tuple[str, ...], shell: Shell) -> None:
    command = [sys.executable, "-c", LOADED, "--store", shell.url, "runs", *words]
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True, env=env)
    loaded = set(done.stderr.split())
    assert "pyrula_core" in loaded
    foreign = {"langgraph", "langchain", "langchain_core", "langsmith", "pyrula_langgraph"}
    assert not loaded & (foreign | {"redis", "rich", "jsonschema"})


def test_expected_errors_of_the_real_program_have_no_traceback(shell: Shell) -> None:
    code, out, err = finish(start("--store", shell.url, "runs", "show", "nope"))
    assert (code, out) == (2, "")
    assert err.startswith("error[run_not_found]: ")
    assert "Traceback" not in err


@pytest.mark.parametrize("words", [("list",), ("show", "complete-1")], ids=" ".join)
def test_a_reader_that_went_away_is_no_error_worth_a_traceback(
    words: tuple[str, ...], shell: Shell
) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    process = start("--store", shell.url, "runs", *words, stdout=writing)
    os.close(writing)
    code, _, err = finish(process)
    assert (code, err) == (1, "")


def test_a_terminal_gets_a_table_that_no_stored_text_can_steer(tmp_path: Path) -> None:
    path = tmp_path / "runs.db"
    asyncio.run(one_hostile_run(f"sqlite:///{path}"))
    controller, terminal = pty.openpty()
    env = {"TERM": "xterm-256color", "COLUMNS": "120"}
    process = start("--store", f"sqlite:///{path}", "runs", "list", stdout=terminal, env=env)
    os.close(terminal)
    code, _, err = finish(process)
    shown = read_all(controller)
    assert (code, err) == (0, "")
    assert "━" in shown or "─" in shown
    assert "\x1b[2J" not in shown
    assert r"\x1b[2J[bold]x[/bold]" in shown


async def one_hostile_run(url: str) -> None:
    registry = Registry()

    @workflow(name="w", version="\x1b[2J[bold]x[/bold]", registry=registry)
    async def body(ctx: Any) -> None: ...

    with open_store(url) as store:
        await Client(store, registry=registry).start("w", run_id="r-1")


def read_all(terminal: int) -> str:
    parts: list[bytes] = []
    try:
        while part := os.read(terminal, 65536):
            parts.append(part)
    except OSError:
        pass  # Linux says so when the other side of a terminal is closed.
    os.close(terminal)
    return b"".join(parts).decode()


def test_the_package_can_be_run_as_a_module() -> None:
    command = [sys.executable, "-m", "pyrula_core", "--version"]
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True, env=env)
    assert done.stdout.startswith("pyrula ")


def test_the_version_is_printed_without_a_store() -> None:
    done = CliRunner().invoke(main, ["--version"])
    assert done.exit_code == 0
    assert done.stdout.startswith("pyrula ")


def every_command(group: click.Group, *path: str) -> list[tuple[str, ...]]:
    found: list[tuple[str, ...]] = [path]
    for name, command in sorted(group.commands.items()):
        nested = isinstance(command, click.Group)
        found += every_command(command, *path, name) if nested else [(*path, name)]
    return found


@pytest.mark.parametrize("path", every_command(main), ids=" ".join)
def test_every_command_has_help_and_those_that_act_an_example(path: tuple[str, ...]) -> None:
    done = CliRunner().invoke(main, [*path, "--help"])
    assert done.exit_code == 0
    assert path == ("runs",) or "Examples:\n    pyrula " in done.stdout
    assert "\b" not in done.stdout


# --- small forms ---


@pytest.mark.parametrize(
    "error, code",
    [
        (errors.RunNotFoundError("x"), 2),
        (errors.NotRegisteredError("x"), 2),
        (errors.StoreUnavailable("x"), 3),
        (errors.JournalTooNew("x"), 3),
        (errors.ResultNotSerializable("x"), 1),
        (errors.DurableInvocationCancelled("x"), 1),
    ],
    ids=lambda value: type(value).__name__,
)
def test_the_exit_code_says_who_is_at_fault(error: errors.PyrulaError, code: int) -> None:
    assert exit_code(error) == code


def test_an_error_that_is_not_ours_is_a_bug_and_is_not_hidden() -> None:
    @click.command()
    def crash() -> None:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        CliRunner().invoke(Root(commands=[crash]), ["crash"], catch_exceptions=False)


@pytest.mark.parametrize(
    "seconds, shown",
    [(-5, "0s"), (0.9, "0s"), (59.9, "59s"), (60, "1m"), (7200, "2h"), (200_000, "2d")],
)
def test_an_age_is_shown_in_its_largest_whole_unit(seconds: float, shown: str) -> None:
    assert age(seconds) == shown


def test_times_are_shown_in_utc_and_any_number_is_survived() -> None:
    assert moment(1.125) == "1970-01-01 00:00:01.125Z"
    assert moment(1e300) == "1e+300"


@pytest.mark.parametrize("count, shown", [(7, "7 bytes"), (4500, "4.5 kB"), (2e6, "2.0 MB")])
def test_sizes_are_shown_in_decimal_units(count: int, shown: str) -> None:
    assert size(count) == shown


def test_text_is_shown_on_one_line_without_control_characters() -> None:
    assert printable("a\nb\x1b[31m\u202e é") == r"a\nb\x1b[31m\u202e é"


@pytest.mark.parametrize(
    "plain, shape",
    [
        (None, "None"),
        (True, "bool"),
        ("abc", "str[3]"),
        ([], "list[0]"),
        ([1, [2, 3]], "list[2](int, list[2])"),
        (list(range(9)), "list[9](int, int, int, int, int, int, int, int, ...)"),
        ({"secret": 1}, "dict[1]"),
        ({"$pyrula": ["tuple", [1, "a"]]}, "tuple[2](int, str[1])"),
        ({"$pyrula": ["model", "shop:Order", {"id": 7}]}, "shop:Order"),
        ({"$pyrula": ["object", [["$pyrula", 1]]]}, "dict[1]"),
        ({"$pyrula": 1}, "dict[1]"),
    ],
)
def test_a_shape_tells_types_and_sizes_and_no_content(plain: Any, shape: str) -> None:
    assert shape_of(plain) == shape


@pytest.mark.parametrize("body", [b"\xff", b"{", b"[" * 100_000], ids=["bytes", "cut", "deep"])
def test_a_value_that_is_not_json_is_shown_as_its_size(body: bytes) -> None:
    shown = payload_text(Payload("json/1", body), Capture.FULL)
    assert shown == f"json/1, {size(len(body))}"
