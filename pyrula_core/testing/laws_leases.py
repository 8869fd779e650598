"""The laws of leases: epochs rise, fences hold, time is the store's."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from pyrula_core.model import RunKey, RunStatus
from pyrula_core.ports import (
    Append,
    Appended,
    DeleteRun,
    Fenced,
    NotClaimable,
    Now,
    Patch,
    ReadRecords,
    Record,
    Renew,
    Renewed,
    WriteRecords,
)
from pyrula_core.testing.laws import (
    Bench,
    LawBook,
    append_of,
    body,
    claim_of,
    require,
    require_equal,
)

__all__ = ["BOOK"]

BOOK: Final = LawBook()


# --- L5: epochs strictly rise ---------------------------------------------------------------------


@BOOK.check("L5", "Every claim of a run has a higher epoch than the one before.")
async def epochs_rise_with_every_claim(bench: Bench) -> None:
    row = await bench.running()
    for _ in range(4):
        released = await bench.append(row, patch=Patch(status=RunStatus.QUEUED, release=True))
        again = await bench.claim(released.key)
        require(again.epoch > row.epoch, f"epoch {again.epoch} follows {row.epoch}")
        row = again


@BOOK.check("L5", "A restart of the store does not set epochs back.")
async def epochs_rise_across_restarts(bench: Bench) -> None:
    row = await bench.running(ttl=10)
    bench.reopen()
    require_equal((await bench.row(row.key)).epoch, row.epoch, why="the epoch after a restart")
    bench.clock.advance(10)
    again = await bench.claim(row.key)
    require(again.epoch > row.epoch, f"epoch {again.epoch} follows {row.epoch}")
    require_equal(await bench.ask(append_of(row, "x")), Fenced(again.epoch), why="the old owner")


@BOOK.check(
    "L5", "An owner of a deleted run can write nothing into a run created under the same key."
)
async def epochs_rise_across_a_deletion(bench: Bench) -> None:
    old = await bench.running()
    await bench.end(old)
    await bench.ask(DeleteRun(old.key))
    bench.reopen()
    new = await bench.running()
    require(new.epoch > old.epoch, f"epoch {new.epoch} follows {old.epoch}")
    require_equal(await bench.ask(append_of(old, "x")), Fenced(new.epoch), why="the old owner")


# --- fences ---------------------------------------------------------------------------------------


@BOOK.check(
    "L5",
    "Once another has claimed a run, its former owner writes nothing, wherever it believes to be.",
)
async def a_lost_owner_is_fenced(bench: Bench) -> None:
    old = await bench.running(ttl=10)
    bench.clock.advance(10)
    new = await bench.claim(old.key, owner="b")
    for op in (append_of(old, "x"), append_of(replace(old, seq=new.seq), "x")):
        require_equal(await bench.ask(op), Fenced(epoch=new.epoch), why="an append")
    renew = Renew(old.key, old.epoch, "a", 10)
    require_equal(await bench.ask(renew), Fenced(epoch=new.epoch), why="a renewal")
    require_equal(await bench.row(old.key), new, why="the row")
    require_equal(len(await bench.names(old.key)), new.seq, why="events")


@BOOK.check("L5", "Who gave a lease back is fenced until it claims again; so is who never had one.")
async def a_released_run_takes_no_append(bench: Bench) -> None:
    row = await bench.running()
    free = await bench.append(row, "wait", patch=Patch(status=RunStatus.WAITING, release=True))
    require_equal(await bench.ask(append_of(free, "x")), Fenced(row.epoch), why="released")
    queued = await bench.row(await bench.create("queued"))
    answer = await bench.ask(append_of(queued, "x"))
    require_equal(answer, Fenced(queued.epoch), why="never claimed")
    absent = Append(RunKey("wf", "absent"), 1, 0, (body("x"),))
    require(isinstance(await bench.ask(absent), Fenced), "an append to no run is Fenced")


@BOOK.check(
    "L5", "A fenced write of records holds while the epoch does, and changes nothing afterwards."
)
async def records_can_be_fenced(bench: Bench) -> None:
    row = await bench.running(ttl=10)
    first = WriteRecords("q", (Record(b"k", b"1"),), fence=row.key, epoch=row.epoch)
    require(isinstance(await bench.ask(first), Appended), "the owner writes")
    bench.clock.advance(10)
    await bench.claim(row.key, owner="b")
    late = replace(first, records=(Record(b"k", b"2"),))
    require_equal(await bench.ask(late), Fenced(row.epoch + 1), why="the lost owner")
    absent = replace(first, fence=RunKey("wf", "absent"))
    require(isinstance(await bench.ask(absent), Fenced), "a fence of no run holds nothing")
    require_equal(await bench.ask(ReadRecords("q", (b"k",))), (b"1",), why="the record")


# --- L6: time is the store's ----------------------------------------------------------------------


@BOOK.check("L6", "A lease holds for its whole time on the store's clock, and not a moment longer.")
async def a_lease_ends_when_its_time_is_over(bench: Bench) -> None:
    row = await bench.running(ttl=10)
    require_equal(row.lease_until, bench.clock.time() + 10, why="the lease's end")
    bench.clock.advance(9.5)
    answer = await bench.ask(claim_of(row.key, owner="b"))
    require_equal(answer, NotClaimable(row), why="before its end")
    bench.clock.advance(0.5)
    await bench.claim(row.key, owner="b")


@BOOK.check(
    "L6", "A renewal moves the lease's end to ``ttl`` from now, and other claims wait for that."
)
async def a_renewal_counts_from_now(bench: Bench) -> None:
    row = await bench.running(ttl=10)
    bench.clock.advance(8)
    answer = await bench.ask(Renew(row.key, row.epoch, "a", 20))
    require_equal(answer, Renewed(row.controls), why="the answer")
    require_equal((await bench.row(row.key)).lease_until, bench.clock.time() + 20, why="its end")
    bench.clock.advance(19)
    early = await bench.ask(claim_of(None, owner="b", serves=[("wf", "")]))
    require_equal(early, NotClaimable(), why="before the new end")
    bench.clock.advance(1)
    await bench.claim(row.key, owner="b")


@BOOK.check(
    "L6", "A lease that has run out is not renewed, even when nobody claimed the run since."
)
async def a_lease_that_ran_out_is_not_renewed(bench: Bench) -> None:
    row = await bench.running(ttl=10)
    bench.clock.advance(10)
    require_equal(await bench.ask(Renew(row.key, row.epoch, "a", 10)), Fenced(row.epoch), why="")


@BOOK.check("L6", "A renewal with another owner or epoch, or of no run, is Fenced.")
async def a_renewal_needs_the_owner(bench: Bench) -> None:
    row = await bench.running()
    for op in (
        Renew(row.key, row.epoch, "b", 10),
        Renew(row.key, row.epoch + 1, "a", 10),
        Renew(row.key, row.epoch - 1, "a", 10),
        Renew(RunKey("wf", "absent"), row.epoch, "a", 10),
    ):
        require(isinstance(await bench.ask(op), Fenced), f"{op!r} is Fenced")
    require_equal(await bench.row(row.key), row, why="the row")


@BOOK.check("L6", "When the machine's clock is set back, the store's own stands still.")
async def the_clock_of_a_store_never_goes_back(bench: Bench) -> None:
    before = await bench.ask(Now())
    require_equal(before, bench.clock.time(), why="the store's clock")
    bench.clock.jump(-100)
    require(await bench.ask(Now()) >= before, "the store's clock went back")
    row = await bench.running()
    require(row.created_at >= before, "a run was created before the past")
