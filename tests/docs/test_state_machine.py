"""The page on a run's states shows what the code does."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest

from pyrula_core.machine import NEXT_STATUS
from pyrula_core.model import RunStatus


@pytest.fixture
def script(repository: Path) -> ModuleType:
    place = repository / "docs" / "draw_state_machine.py"
    spec = importlib.util.spec_from_file_location("draw_state_machine", place)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_page_is_up_to_date(script: ModuleType) -> None:
    page = script.PAGE.read_text("utf-8")
    again = "run 'python docs/draw_state_machine.py'"
    assert script.page_with(script.drawn(), page) == page, again


def test_every_status_and_every_event_of_the_table_is_drawn(script: ModuleType) -> None:
    drawing = script.drawn()
    for status in RunStatus:
        assert str(status) in drawing
    for kind in NEXT_STATUS:
        assert f"`{kind}`" in drawing


def test_a_page_without_its_markers_is_told(script: ModuleType) -> None:
    with pytest.raises(ValueError, match="markers"):
        script.page_with(script.drawn(), "# A page of something else\n")
