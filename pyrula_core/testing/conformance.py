"""Tries every law of ``docs/store-contract.md`` on a store.

Owns the order of the checks. A store of yours conforms when this passes::

    class MyStorage:
        def open(self, *, clock, namespace):
            return MyStore(self.address, clock=clock, namespace=namespace)

    report = asyncio.run(check(MyStorage))
    print(report)
    report.raise_for_failures()
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final

from pyrula_core.testing import (
    laws_claims,
    laws_journal,
    laws_leases,
    laws_listing,
    laws_posts,
    laws_records,
)
from pyrula_core.testing.laws import Check, Finding, Report, Storage, bench_on

__all__ = ["CHECKS", "check", "run_check"]

CHECKS: Final[tuple[Check, ...]] = (
    *laws_journal.BOOK.checks,
    *laws_leases.BOOK.checks,
    *laws_claims.BOOK.checks,
    *laws_posts.BOOK.checks,
    *laws_records.BOOK.checks,
    *laws_listing.BOOK.checks,
)


async def check(factory: Callable[[], Storage], *, checks: Iterable[Check] = CHECKS) -> Report:
    """Try every check on fresh storage of its own and report what held.

    ``factory`` returns empty storage each time; its ``open`` is called again to see what a
    restart leaves. Never raises for a broken law: see ``Report.raise_for_failures``.
    """
    return Report(tuple([await run_check(one, factory()) for one in checks]))


async def run_check(one: Check, storage: Storage) -> Finding:
    """Try one check on fresh storage."""
    try:
        with bench_on(storage) as bench:
            await one.attempt(bench)
    except Exception as error:  # noqa: BLE001 - a broken store may raise anything; it is reported
        return Finding(one, error)
    return Finding(one)
