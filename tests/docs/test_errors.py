"""Every stable error code of the packages is on the page on errors, and no other."""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import pyrula_langgraph.errors
from pyrula_core import endings, errors

MODULES = (errors, pyrula_langgraph.errors)


def classes() -> list[type[errors.PyrulaError]]:
    """Return every public error class of the two trees."""
    found = [cls for module in MODULES for _, cls in inspect.getmembers(module, inspect.isclass)]
    mine = {cls for cls in found if issubclass(cls, errors.PyrulaError)}
    return sorted((cls for cls in mine if cls.__name__[0] != "_"), key=lambda cls: cls.__name__)


def written_codes(repository: Path) -> Iterator[tuple[str, str]]:
    """Yield the codes that calls in the packages are given as ``code="..."``, and where."""
    for package in ("pyrula_core", "pyrula_langgraph"):
        for file in sorted((repository / package).rglob("*.py")):
            if "testing" in file.parts:
                continue
            for node in ast.walk(ast.parse(file.read_text("utf-8"))):
                if isinstance(node, ast.keyword) and node.arg == "code":
                    value = node.value
                    if isinstance(value, ast.Constant) and isinstance(value.value, str):
                        yield value.value, file.relative_to(repository).as_posix()


@pytest.fixture
def page(repository: Path) -> str:
    return (repository / "docs" / "errors.md").read_text("utf-8")


@pytest.fixture
def listed(page: str) -> set[str]:
    """The codes in the first column of the page's tables."""
    rows = [line.split("|")[1] for line in page.splitlines() if line.startswith("| `")]
    return {code for row in rows for code in re.findall(r"`([a-z_]+)`", row)}


@pytest.mark.parametrize("cls", classes(), ids=lambda cls: cls.__name__)
def test_a_class_is_on_the_page_with_its_code(
    cls: type[errors.PyrulaError], page: str, listed: set[str]
) -> None:
    assert cls.code in listed
    if cls not in (errors.PyrulaError, errors.DurableInvocationError):
        assert re.search(rf"^\| `{cls.code}`.*`{cls.__name__}`", page, re.MULTILINE)


def test_a_code_that_a_call_gives_is_on_the_page(repository: Path, listed: set[str]) -> None:
    missing = {code: place for code, place in written_codes(repository) if code not in listed}
    assert missing == {}


def test_a_code_that_a_run_takes_from_its_error_is_marked(page: str) -> None:
    marked = set(re.findall(r"^\| `([a-z_]+)` \*", page, re.MULTILINE))
    assert marked | {"event_refused"} == set(endings.SPEAKING)


def test_the_page_knows_no_code_that_the_packages_do_not(
    repository: Path, listed: set[str]
) -> None:
    known = {cls.code for cls in classes()} | {code for code, _ in written_codes(repository)}
    assert listed - known == {"agent_error"}
