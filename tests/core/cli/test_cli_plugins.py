"""Commands that other packages hang in."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from pyrula_core.cli import main

PLUGIN = """
import click
from pyrula_core.cli import pass_invocation
from pyrula_core.errors import CallerError

@click.command()
@click.option("--fail", is_flag=True)
@pass_invocation
def hello(invocation, fail):
    if fail:
        raise CallerError("asked to fail", hint="Do not ask")
    click.echo(f"hello from {invocation.url}")
"""
ENTRIES = """[pyrula.commands]
hello = fake_plugin:hello
broken = fake_plugin_with_bug:hello
odd = json:dumps
runs = fake_plugin:hello
"""


def call(*words: str) -> Result:
    return CliRunner().invoke(main, list(words), catch_exceptions=False)


@pytest.fixture(autouse=True)
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Install a package that brings commands."""
    (tmp_path / "fake_plugin.py").write_text(PLUGIN)
    (tmp_path / "fake_plugin_with_bug.py").write_text("import a_missing_package\n")
    folder = tmp_path / "fake_desk-1.0.dist-info"
    folder.mkdir()
    (folder / "METADATA").write_text("Metadata-Version: 2.1\nName: fake-desk\nVersion: 1.0\n")
    (folder / "entry_points.txt").write_text(ENTRIES)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "fake_plugin", raising=False)


def test_an_installed_command_is_listed_without_being_imported() -> None:
    done = call("--help")
    assert done.exit_code == 0
    assert "hello" in done.stdout
    assert "broken" in done.stdout
    assert "Brought by fake-desk." in done.stdout
    assert "fake_plugin" not in sys.modules


def test_an_installed_command_is_loaded_when_it_is_called() -> None:
    done = call("--store", "memory://", "hello")
    assert (done.exit_code, done.output) == (0, "hello from memory://\n")
    assert "fake_plugin" in sys.modules
    assert "--fail" in call("hello", "--help").stdout


def test_errors_of_an_installed_command_are_told_like_our_own() -> None:
    done = call("hello", "--fail")
    assert (done.exit_code, done.stdout) == (2, "")
    assert done.stderr == "error[caller_error]: asked to fail\nhint: Do not ask\n"


@pytest.mark.parametrize("name, why", [("broken", "a_missing_package"), ("odd", "click command")])
def test_a_command_that_cannot_be_loaded_is_told(name: str, why: str) -> None:
    done = call(name)
    assert (done.exit_code, done.stdout) == (1, "")
    assert done.stderr.startswith("error[command_unavailable]: ")
    assert why in done.stderr


def test_an_installed_command_cannot_take_the_place_of_our_own() -> None:
    done = call("--store", "memory://", "runs", "list", "--json")
    assert json.loads(done.stdout) == {"runs": [], "cursor": None}


def test_an_unknown_command_is_a_usage_error() -> None:
    done = call("rnus")
    assert done.exit_code == 2
    assert "No such command 'rnus'" in done.stderr
