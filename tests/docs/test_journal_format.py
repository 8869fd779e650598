"""The page on the journal format names every type of event as the code has it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from pyrula_core.codec import FORMAT_VERSION, event_bytes_max
from pyrula_core.events import EXTERNAL, REQUIRED, TAGS, EventType

ROW = re.compile(r"^\| (\d+) \| `([a-z_:]+)` \|([^|]*)\|")


@pytest.fixture
def page(repository: Path) -> str:
    return (repository / "docs" / "journal-format.md").read_text("utf-8")


@pytest.fixture
def rows(page: str) -> dict[str, tuple[int, set[str]]]:
    """The tag and the required fields that the page gives to each type."""
    found = [ROW.match(line) for line in page.splitlines()]
    return {row[2]: (int(row[1]), set(re.findall(r"`(\w+)`", row[3]))) for row in found if row}


@pytest.mark.parametrize("kind", EventType)
def test_a_type_is_on_the_page_with_its_tag_and_its_required_fields(
    rows: dict[str, tuple[int, set[str]]], kind: EventType
) -> None:
    assert rows[kind.value] == (TAGS[kind], set(REQUIRED[kind]))


def test_the_page_knows_no_other_type(rows: dict[str, tuple[int, set[str]]]) -> None:
    assert set(rows) == {kind.value for kind in EventType}


def test_the_page_lists_what_others_than_the_owner_may_add(page: str) -> None:
    sentence = next(line for line in page.splitlines() if line.startswith("All others post;"))
    assert set(re.findall(r"`([a-z_]+:[a-z_]+)`", sentence)) == {kind.value for kind in EXTERNAL}


def test_the_page_has_the_version_and_the_limit_of_the_code(page: str) -> None:
    assert f"format version, `{FORMAT_VERSION}` today" in page
    assert f"`event_bytes_max` is {event_bytes_max // 2**20} MiB" in page
