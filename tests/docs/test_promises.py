"""Every test that the page on promises names exists."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from pyrula_core.testing import CHECKS

DOCS = Path(__file__).resolve().parents[2] / "docs"
NAMED = re.compile(r"`((?:tests|pyrula_core)/[\w/]+\.py)::(\w+)`")
PAGE = (DOCS / "promises.md").read_text("utf-8")


def named() -> list[tuple[str, str]]:
    """Return every path and name that the page gives, each once."""
    return sorted(set(NAMED.findall(PAGE)))


@cache
def names_in(path: Path) -> frozenset[str]:
    """Return what a module defines on its top level, without importing it."""
    return frozenset(definitions(ast.parse(path.read_text("utf-8"))))


def definitions(tree: ast.Module) -> Iterator[str]:
    for node in tree.body:
        match node:
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
                yield node.name
            case ast.Assign(targets=[ast.Name(id=name)]):
                yield name
            case _:
                pass


@pytest.mark.parametrize("path, name", named())
def test_a_test_that_the_page_names_exists(path: str, name: str) -> None:
    file = DOCS.parent / path
    assert file.is_file(), path
    assert name in names_in(file), f"{path} defines no {name}"


def test_a_law_that_the_page_names_is_checked() -> None:
    checked = {law.name for law in CHECKS}
    assert {name for path, name in named() if path.startswith("pyrula_core/")} <= checked


def test_what_the_page_names_is_run_by_pytest() -> None:
    for path, name in named():
        if path.startswith("tests/"):
            assert name.startswith(("test_", "Test")), name
            assert Path(path).name.startswith("test_"), path


def test_every_row_names_a_test_and_says_how() -> None:
    rows = [line for line in PAGE.splitlines() if re.match(r"\| P?\d", line)]
    assert len(rows) > 80
    for row in rows:
        *_, tests, how, _ = row.split("|")
        assert NAMED.search(tests), row
        assert re.match(r" (example|every store|property|crash|simulation)", how), row


def test_the_ten_promises_are_there_in_order() -> None:
    assert re.findall(r"^\| (P\d+) \|", PAGE, re.MULTILINE) == [f"P{n}" for n in range(1, 11)]
