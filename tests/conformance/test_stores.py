"""Every law of the store contract, on every store."""

from __future__ import annotations

from pathlib import Path

import pytest

from pyrula_core.model import Durability
from pyrula_core.ports import Store
from pyrula_core.stores import MemoryStore
from pyrula_core.testing import CHECKS, Check, ManualClock, Storage, check, run_check
from tests.conformance.storages import MemoryStorage, SqliteStorage

STORES = ("memory", "sqlite-machine", "sqlite-process")


@pytest.fixture(params=STORES)
def storage(request: pytest.FixtureRequest, tmp_path: Path) -> Storage:
    match request.param:
        case "memory":
            return MemoryStorage()
        case "sqlite-machine":
            return SqliteStorage(tmp_path, Durability.MACHINE)
        case _:
            return SqliteStorage(tmp_path, Durability.PROCESS)


@pytest.mark.parametrize("law", CHECKS, ids=lambda law: f"{law.law}-{law.name}")
async def test_the_law_holds(storage: Storage, law: Check) -> None:
    finding = await run_check(law, storage)
    if finding.error is not None:
        raise finding.error


def test_a_store_is_a_store(storage: Storage) -> None:
    with storage.open(clock=ManualClock(), namespace="default") as store:
        assert isinstance(store, Store)


async def test_a_report_names_every_law_and_what_became_of_it() -> None:
    report = await check(MemoryStorage)
    assert not report.failures
    report.raise_for_failures()
    lines = str(report).splitlines()
    assert lines[-1] == f"{len(CHECKS)} of {len(CHECKS)} held"
    assert all(line.startswith("pass") for line in lines[:-1])


async def test_a_report_raises_every_failure_at_once() -> None:
    class Silent(MemoryStore):
        def append(self, op: object) -> object:
            raise RuntimeError("this store appends nothing")

    report = await check(lambda: MemoryStorage(Silent))
    assert len(report.failures) > 10
    assert "FAIL" in str(report)
    with pytest.raises(ExceptionGroup) as caught:
        report.raise_for_failures()
    assert len(caught.value.exceptions) == len(report.failures)


def test_every_check_has_a_name_of_its_own() -> None:
    assert len({law.name for law in CHECKS}) == len(CHECKS)
    assert all(law.sentence.endswith(".") for law in CHECKS)


def test_every_law_is_checked() -> None:
    laws = {law.law for law in CHECKS}
    assert {f"L{number}" for number in range(1, 12)} <= laws
