"""A store URL opens a store, or says what would."""

from __future__ import annotations

from pathlib import Path

import pytest

from pyrula_core.errors import StoreUrlError
from pyrula_core.model import Durability
from pyrula_core.ports import Now
from pyrula_core.stores import MemoryStore, open_store
from pyrula_core.stores.sqlite import SqliteStore
from pyrula_core.testing import ManualClock, SeededEntropy


def test_memory_is_opened_fresh_each_time() -> None:
    with open_store("memory://") as first, open_store("memory://") as second:
        assert isinstance(first, MemoryStore)
        assert first.url == "memory://"
        assert first.durability is Durability.MEMORY
        assert first.disk is not second.disk


def test_a_relative_and_an_absolute_path_name_the_same_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with open_store("sqlite:///a.db") as first, open_store(f"sqlite:///{tmp_path}/a.db") as second:
        assert isinstance(first, SqliteStore)
        assert first.url == second.url == f"sqlite:///{tmp_path}/a.db"


def test_without_a_url_the_environment_decides(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with open_store() as store:
        assert store.url == f"sqlite:///{tmp_path}/pyrula.db"
    monkeypatch.setenv("PYRULA_STORE", "memory://")
    with open_store() as store:
        assert store.url == "memory://"


def test_a_path_may_hold_any_character(tmp_path: Path) -> None:
    with open_store(f"sqlite:///{tmp_path}/a%20b%3F%23.db") as store:
        assert (tmp_path / "a b?#.db").exists()
        with open_store(store.url) as again:
            assert again.url == store.url


def test_the_clock_and_the_options_reach_the_store(tmp_path: Path) -> None:
    clock = ManualClock(start=5.0)
    url = f"sqlite:///{tmp_path}/a.db"
    with open_store(url, clock=clock, namespace="n", durability="process") as store:
        assert store.durability is Durability.PROCESS
        assert store.submit(Now()).result() == 5.0
    with open_store(f"{url}?durability=process", durability="machine") as store:
        assert store.durability is Durability.MACHINE, "the call's option wins"


@pytest.mark.parametrize(
    "url,word",
    [
        ("redis://h:6379/0", "no Redis store yet"),
        ("rediss://h", "no Redis store yet"),
        ("redis+cluster://h", "no Redis store yet"),
        ("postgres://h/db", "not understood"),
        ("pyrula.db", "not understood"),
        ("", "not understood"),
        ("sqlite://", "names no file"),
        ("sqlite:///", "names no file"),
        ("sqlite://host/a.db", "names no file"),
        ("sqlite:///:memory:", "names no file"),
        ("sqlite:///a.db?mode=ro", "no option mode"),
        ("sqlite:///a.db?durability=none", "not a level"),
        ("sqlite:///a.db#x", "no option"),
        ("memory://name", "no name"),
        ("memory://?durability=machine", "no option durability"),
        ("http://[", "cannot be read"),
    ],
)
def test_a_url_that_names_no_store_is_refused(
    url: str, word: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(StoreUrlError, match=word):
        open_store(url)
    assert not list(tmp_path.iterdir())


def test_a_password_is_never_shown() -> None:
    with pytest.raises(StoreUrlError) as caught:
        open_store("redis://user:s3cret@host/0")
    assert "s3cret" not in str(caught.value)
    assert "host" in str(caught.value)


def test_a_manual_clock_moves_when_it_is_told_to() -> None:
    clock = ManualClock(start=10.0)
    clock.advance(2.5)
    clock.jump(-5.0)
    assert (clock.time(), clock.monotonic()) == (7.5, 12.5)
    with pytest.raises(ValueError, match="forwards"):
        clock.advance(-1.0)


def test_seeded_entropy_repeats() -> None:
    first, second = SeededEntropy(1), SeededEntropy(1)
    assert [first.token(), first.random()] == [second.token(), second.random()]
    assert len(first.token()) == 32
    assert SeededEntropy(2).token() != SeededEntropy(1).token()
