"""The laws of a journal: appends are whole, repeatable, durable, ordered, and end for good."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from pyrula_core.codec import event_bytes_max
from pyrula_core.model import ENDED, RunKey, RunStatus
from pyrula_core.ports import (
    Appended,
    Conflict,
    DeleteRun,
    Ended,
    Fenced,
    Head,
    NotClaimable,
    Patch,
    Post,
    ReadEvents,
    ReadRecords,
    Record,
    Refused,
)
from pyrula_core.testing.laws import (
    Bench,
    LawBook,
    append_of,
    body,
    claim_of,
    label,
    require,
    require_equal,
)

__all__ = ["BOOK"]

BOOK: Final = LawBook()
WRITE: Final = (Record(b"k", b"v"),)


# --- L1: all or nothing ---------------------------------------------------------------------------


@BOOK.check("L1", "An append stores its events, its records and the run's new status together.")
async def an_append_is_whole(bench: Bench) -> None:
    row = await bench.running()
    waiting = Patch(status=RunStatus.WAITING, release=True, wake_at=bench.clock.time() + 5)
    after = await bench.append(row, "one", "two", "three", patch=waiting, records=WRITE)
    require_equal(await bench.names(row.key), ["created", "claimed", "one", "two", "three"], why="")
    require_equal(await bench.ask(ReadRecords("p", (b"k",))), (b"v",), why="its record")
    require_equal(
        (after.seq, after.status, after.owner, after.wake_at),
        (row.seq + 3, RunStatus.WAITING, None, bench.clock.time() + 5),
        why="the row",
    )


@BOOK.check("L1", "An append that is fenced, in conflict or refused changes nothing at all.")
async def a_refused_append_leaves_nothing(bench: Bench) -> None:
    row = await bench.running()
    end = Patch(status=RunStatus.COMPLETE)
    fenced = append_of(replace(row, epoch=row.epoch + 1), "x", patch=end, records=WRITE)
    behind = append_of(replace(row, seq=row.seq - 1), "x", patch=end, records=WRITE)
    ahead = append_of(replace(row, seq=row.seq + 1), "x", patch=end, records=WRITE)
    huge = append_of(row, "x", patch=end, records=WRITE)
    huge = replace(huge, events=(*huge.events, bytes(event_bytes_max + 1)))
    answers = [type(await bench.ask(op)) for op in (fenced, behind, ahead, huge)]
    require_equal(answers, [Fenced, Conflict, Conflict, Refused], why="the answers")
    require_equal(await bench.row(row.key), row, why="the row is as it was")
    require_equal(await bench.names(row.key), ["created", "claimed"], why="no event was added")
    require_equal(await bench.ask(ReadRecords("p", (b"k",))), (None,), why="no record was written")


@BOOK.check("L1", "An append without events still writes its records and its patch.")
async def an_append_may_change_the_row_alone(bench: Bench) -> None:
    row = await bench.running()
    after = await bench.append(row, patch=Patch(error_code="e", user_code="u"), records=WRITE)
    require_equal((after.seq, after.error_code, after.user_code), (row.seq, "e", "u"), why="row")
    require_equal(await bench.ask(ReadRecords("p", (b"k",))), (b"v",), why="its record")


# --- L2: repeatable -------------------------------------------------------------------------------


@BOOK.check("L2", "The same events at the same place again are Appended again and stored once.")
async def an_append_can_be_repeated(bench: Bench) -> None:
    row = await bench.running()
    op = append_of(row, "one", "two")
    first, second = await bench.ask(op), await bench.ask(op)
    require_equal(second, first, why="the second answer")
    require_equal(await bench.names(row.key), ["created", "claimed", "one", "two"], why="stored")


@BOOK.check(
    "L2",
    "A repeated append is recognised when the journal has gone on since, and told its own seq.",
)
async def an_append_can_be_repeated_after_others(bench: Bench) -> None:
    row = await bench.running()
    op = append_of(row, "one")
    await bench.ask(op)
    await bench.ask(Post(row.key, (body("signal"),)))
    again = await bench.ask(op)
    require(isinstance(again, Appended) and again.seq == row.seq + 1, f"answered {again!r}")
    require_equal(await bench.names(row.key), ["created", "claimed", "one", "signal"], why="stored")


@BOOK.check(
    "L2", "The append that ended a run, or gave its lease back, is Appended again when repeated."
)
async def the_last_append_can_be_repeated(bench: Bench) -> None:
    for run_id, patch in (
        ("ended", Patch(status=RunStatus.COMPLETE)),
        ("released", Patch(status=RunStatus.INTERRUPTED, release=True)),
    ):
        row = await bench.running(run_id)
        op = append_of(row, "last", patch=patch)
        first, second = await bench.ask(op), await bench.ask(op)
        require(isinstance(first, Appended), f"{run_id}: answered {first!r}")
        require_equal(second, first, why=f"{run_id}: the second answer")


@BOOK.check(
    "L2",
    "Other events at a place that is taken, or more of them, are a Conflict with what is there.",
)
async def other_events_at_the_same_place_are_a_conflict(bench: Bench) -> None:
    row = await bench.running()
    await bench.append(row, "one")
    for op in (append_of(row, "other"), append_of(row, "one", "two")):
        answer = await bench.ask(op)
        require(isinstance(answer, Conflict), f"answered {answer!r}")
        tail = await bench.ask(ReadEvents(row.key, after=row.seq))
        require_equal(getattr(answer, "tail", None), tail, why="the tail")
        require_equal(getattr(answer, "seq", None), row.seq + 1, why="the seq")
    require_equal(await bench.names(row.key), ["created", "claimed", "one"], why="stored")


@BOOK.check("L2", "A repeated append of an owner that has lost the run since is Fenced.")
async def a_lost_owner_cannot_repeat(bench: Bench) -> None:
    row = await bench.running(ttl=10)
    op = append_of(row, "one")
    await bench.ask(op)
    bench.clock.advance(10)
    await bench.claim(row.key, owner="b")
    require_equal(await bench.ask(op), Fenced(epoch=row.epoch + 1), why="the answer")


# --- L3: durable ----------------------------------------------------------------------------------


@BOOK.check("L3", "Events, rows, guards and records that were answered are there after a restart.")
async def what_was_answered_survives_a_restart(bench: Bench) -> None:
    row = await bench.running()
    await bench.append(row, "one", records=WRITE)
    await bench.ask(Post(row.key, (body("signal"),), pause=True, guard="g"))
    before = await bench.row(row.key)
    bench.reopen()
    require_equal(await bench.row(row.key), before, why="the row")
    require_equal(await bench.names(row.key), ["created", "claimed", "one", "signal"], why="events")
    require_equal(await bench.ask(ReadRecords("p", (b"k",))), (b"v",), why="the record")


@BOOK.check(
    "L3", "What one store has answered, every other store on the same storage reads at once."
)
async def what_was_answered_is_seen_by_others(bench: Bench) -> None:
    other = bench.open()
    row = await bench.running()
    for count in range(5):
        bench.start(append_of(replace(row, seq=row.seq + count), f"e{count}")).result(timeout=30)
        seen = await other.call(ReadEvents(row.key))
        require_equal(len(seen), row.seq + count + 1, why="events the other store reads")


# --- L4: gap-free and ordered ---------------------------------------------------------------------


@BOOK.check("L4", "Events are read in order, from any place on, as many as are asked for.")
async def events_are_read_in_order(bench: Bench) -> None:
    row = await bench.running()
    names = [f"e{count}" for count in range(300)]
    await bench.append(row, *names)
    require_equal(await bench.names(row.key), ["created", "claimed", *names], why="all")
    part = await bench.ask(ReadEvents(row.key, after=100, limit=3))
    require_equal([seq for seq, _ in part], [101, 102, 103], why="a part")
    require_equal(await bench.ask(ReadEvents(row.key, after=302)), (), why="behind the end")
    require_equal(await bench.ask(ReadEvents(RunKey("wf", "absent"))), (), why="of no run")


@BOOK.check(
    "L4", "Every stored frame decodes at its own place of its own run, and gives back its body."
)
async def frames_are_sealed_for_their_place(bench: Bench) -> None:
    row = await bench.running()
    await bench.append(row, "one", "two")
    for seq, frame in await bench.ask(ReadEvents(row.key)):
        label(frame, key=row.key, seq=seq)
    found = dict(await bench.ask(ReadEvents(row.key)))
    require_equal(found[row.seq + 1][:-4], body("one"), why="the body")


@BOOK.check("L4", "An append that expects more events than there are is a Conflict, never a gap.")
async def an_append_beyond_the_end_is_a_conflict(bench: Bench) -> None:
    row = await bench.running()
    answer = await bench.ask(append_of(replace(row, seq=row.seq + 5), "x"))
    require_equal(answer, Conflict(row.seq, (), row.controls), why="the answer")


# --- L7: an ended run is frozen -------------------------------------------------------------------


@BOOK.check("L7", "After each terminal status an append is refused as ended, and says so.")
async def an_ended_run_takes_no_append(bench: Bench) -> None:
    for status in sorted(ENDED):
        row = await bench.end(await bench.running(status.value), status)
        answer = await bench.ask(append_of(row, "x", patch=Patch(status=RunStatus.RUNNING)))
        require(isinstance(answer, Refused) and answer.ended, f"{status}: answered {answer!r}")
        require_equal(await bench.row(row.key), row, why=f"{status}: the row")
        require_equal(len(await bench.names(row.key)), row.seq, why=f"{status}: events")


@BOOK.check("L7", "A post to an ended run answers Ended and changes nothing.")
async def an_ended_run_takes_no_post(bench: Bench) -> None:
    row = await bench.end(await bench.running())
    post = Post(row.key, (body("late"),), wake=True, pause=True, cancel=True)
    require_equal(await bench.ask(post), Ended(row), why="the answer")
    require_equal(await bench.row(row.key), row, why="the row")


@BOOK.check("L7", "An ended run has no owner and no lease, and is never claimed again.")
async def an_ended_run_has_no_owner(bench: Bench) -> None:
    row = await bench.end(await bench.running())
    require_equal((row.owner, row.lease_until), (None, 0.0), why="owner and lease")
    bench.clock.advance(1000)
    require_equal(await bench.ask(claim_of(row.key)), NotClaimable(row), why="by its key")
    require_equal(
        await bench.ask(claim_of(None, serves=[("wf", "")])), NotClaimable(), why="by any"
    )


@BOOK.check("L7", "An open run is not deleted; an ended one goes with its journal and its guards.")
async def only_an_ended_run_is_deleted(bench: Bench) -> None:
    row = await bench.running()
    require(not await bench.ask(DeleteRun(row.key)), "an open run was deleted")
    await bench.ask(Post(row.key, (body("signal"),), guard="g"))
    await bench.end(await bench.row(row.key))
    require(await bench.ask(DeleteRun(row.key)), "an ended run was not deleted")
    require_equal(await bench.ask(Head(row.key)), None, why="its row")
    require_equal(await bench.ask(ReadEvents(row.key)), (), why="its events")
    require(not await bench.ask(DeleteRun(row.key)), "it was deleted twice")
    await bench.create()
    answer = await bench.ask(Post(row.key, (body("signal"),), guard="g"))
    require_equal(getattr(answer, "seq", None), 2, why="a guard of the deleted run is free again")
