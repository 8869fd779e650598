"""A damaged or foreign journal is reported, and nothing is executed from it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import apsw
import pytest

from pyrula_core import (
    InlineWorkflowRunner,
    JournalError,
    JournalTooNew,
    NotAPyrulaStore,
    Registry,
    open_store,
    workflow,
)


@pytest.fixture
def finished_half(tmp_path: Path) -> tuple[Path, Registry, list[str]]:
    """A store with a run that has two recorded steps and waits for an answer."""
    return tmp_path / "runs.db", Registry(), []


async def half_a_run(path: Path, registry: Registry, effects: list[str]) -> None:
    @workflow(name="w", registry=registry)
    async def body(ctx: Any) -> None:
        await ctx.step("one", effects.append, "one")
        await ctx.step("two", effects.append, "two")
        await ctx.interrupt("?")
        await ctx.step("three", effects.append, "three")

    store = open_store(f"sqlite:///{path}")
    outcome = await InlineWorkflowRunner(store, registry=registry).run("w", "r")
    client = InlineWorkflowRunner(store, registry=registry).client
    await client.answer("w", "r", outcome.interrupts[0].id, "go")
    store.close()


def change_frame(path: Path, change: Any) -> None:
    """Apply ``change`` to the bytes of the run's fourth event, behind the library's back."""
    connection = apsw.Connection(str(path))
    rows = list(connection.execute("SELECT rowid, frame FROM event ORDER BY rowid"))
    rowid, frame = rows[3]
    connection.execute("UPDATE event SET frame = ? WHERE rowid = ?", (change(frame), rowid))
    connection.close()


def flipped(frame: bytes) -> bytes:
    return frame[:20] + bytes((frame[20] ^ 1,)) + frame[21:]


def newer(frame: bytes) -> bytes:
    # A frame of a later format has its own checksum, which this library can still verify.
    from pyrula_core.codec import seal, unseal
    from pyrula_core.model import RunKey

    key = RunKey("w", "r")
    body = unseal(frame, key=key, seq=4)
    return seal(bytes((9,)) + body[1:], key=key, seq=4)


@pytest.mark.parametrize(
    "change, error, code",
    [(flipped, JournalError, "journal_corrupt"), (newer, JournalTooNew, "journal_too_new")],
)
async def test_a_changed_event_stops_the_run_before_any_effect(
    finished_half: tuple[Path, Registry, list[str]], change: Any, error: type[Exception], code: str
) -> None:
    path, registry, effects = finished_half
    await half_a_run(path, registry, effects)
    effects.clear()
    change_frame(path, change)
    store = open_store(f"sqlite:///{path}")
    runner = InlineWorkflowRunner(store, registry=registry)
    for ask in (
        lambda: runner.run("w", "r"),
        lambda: runner.client.describe("w", "r"),
        lambda: runner.client.history("w", "r"),
    ):
        with pytest.raises(error) as caught:
            await ask()
        assert caught.value.code == code
        assert caught.value.hint
    assert effects == []
    page = await runner.client.list()
    assert [row.key.run_id for row in page.rows] == ["r"]
    store.close()


async def test_a_missing_event_is_a_gap_not_a_shorter_run(
    finished_half: tuple[Path, Registry, list[str]],
) -> None:
    path, registry, effects = finished_half
    await half_a_run(path, registry, effects)
    effects.clear()
    connection = apsw.Connection(str(path))
    connection.execute("DELETE FROM event WHERE rowid = (SELECT rowid FROM event LIMIT 1 OFFSET 3)")
    connection.close()
    store = open_store(f"sqlite:///{path}")
    with pytest.raises(JournalError):
        await InlineWorkflowRunner(store, registry=registry).run("w", "r")
    assert effects == []
    store.close()


def test_a_file_that_is_not_ours_is_refused_and_not_touched(tmp_path: Path) -> None:
    path = tmp_path / "notes.db"
    connection = apsw.Connection(str(path))
    connection.execute("CREATE TABLE note(text)")
    connection.close()
    before = path.read_bytes()
    with pytest.raises(NotAPyrulaStore) as caught:
        open_store(f"sqlite:///{path}")
    assert caught.value.code == "not_a_pyrula_store"
    assert path.read_bytes() == before
