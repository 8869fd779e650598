"""The laws of records: ordered keys and values, in the transaction of the journal beside them."""

from __future__ import annotations

from typing import Final

from pyrula_core.ports import (
    ListPartitions,
    ReadRecords,
    Record,
    RecordRange,
    ScanRecords,
    WriteRecords,
)
from pyrula_core.testing.laws import Bench, LawBook, require, require_equal

__all__ = ["BOOK"]

BOOK: Final = LawBook()
EVERYTHING: Final = (b"", b"\xff" * 8)


@BOOK.check(
    "records", "Values are answered in the order of the keys asked for, None where there is none."
)
async def records_are_read_by_key(bench: Bench) -> None:
    await bench.ask(WriteRecords("p", (Record(b"a", b"1"), Record(b"b", b""))))
    found = await bench.ask(ReadRecords("p", (b"b", b"absent", b"a", b"b")))
    require_equal(found, (b"", None, b"1", b""), why="the values")
    require_equal(await bench.ask(ReadRecords("other", (b"a",))), (None,), why="elsewhere")


@BOOK.check("records", "Writes, deletions and deletions of ranges take effect in the order given.")
async def records_are_applied_in_order(bench: Bench) -> None:
    await bench.ask(WriteRecords("p", tuple(Record(bytes([n]), b"old") for n in range(10))))
    await bench.ask(
        WriteRecords(
            "p",
            (
                Record(b"\x05", b"lost"),
                RecordRange(b"\x03", b"\x07"),
                Record(b"\x04", b"new"),
                Record(b"\x00", None),
                Record(b"\x01", b"gone"),
                Record(b"\x01", None),
                Record(b"absent", None),
            ),
        )
    )
    found = await bench.ask(ScanRecords("p", *EVERYTHING))
    expected = [(2, b"old"), (4, b"new"), (7, b"old"), (8, b"old"), (9, b"old")]
    require_equal(found, tuple((bytes([n]), value) for n, value in expected), why="what is left")


@BOOK.check(
    "records", "A scan answers keys bytewise in order, its end excluded, from either side, limited."
)
async def records_are_scanned_in_order(bench: Bench) -> None:
    keys = [b"", b"\x00", b"\x00\x00", b"a", b"a\x00", b"aa", b"b", b"\x7f", b"\x80", b"\xff"]
    await bench.ask(WriteRecords("p", tuple(Record(key, key) for key in reversed(keys))))

    async def scan(
        start: bytes, end: bytes, limit: int | None = None, *, back: bool
    ) -> list[bytes]:
        found = await bench.ask(ScanRecords("p", start, end, limit, back))
        return [key for key, _ in found]

    require_equal(await scan(*EVERYTHING, back=False), keys, why="all")
    require_equal(await scan(*EVERYTHING, back=True), keys[::-1], why="all, backwards")
    require_equal(await scan(b"a", b"b", back=False), [b"a", b"a\x00", b"aa"], why="a range")
    require_equal(await scan(b"a", b"b", 2, back=False), [b"a", b"a\x00"], why="its first two")
    require_equal(await scan(b"a", b"b", 2, back=True), [b"aa", b"a\x00"], why="its last two")
    require_equal(await scan(b"a", b"b", 0, back=False), [], why="none of them")
    require_equal(await scan(b"b", b"a", back=False), [], why="an empty range")


@BOOK.check("records", "A value of some megabytes comes back byte for byte, after a restart too.")
async def records_hold_large_values(bench: Bench) -> None:
    value = bytes(range(256)) * (4 * 4096)
    await bench.ask(WriteRecords("p", (Record(b"k", value), Record(b"k" * 1000, b"1"))))
    bench.reopen()
    found = await bench.ask(ReadRecords("p", (b"k", b"k" * 1000)))
    require(found == (value, b"1"), "the values are not the same")


@BOOK.check("L8", "The same key in another partition, or in another namespace, is another record.")
async def partitions_do_not_touch_each_other(bench: Bench) -> None:
    other = bench.open(namespace="other")
    await bench.ask(WriteRecords("p", (Record(b"k", b"1"),)))
    await bench.ask(WriteRecords("pp", (Record(b"k", b"2"),)))
    await other.call(WriteRecords("p", (Record(b"k", b"3"),)))
    await bench.ask(WriteRecords("pp", (RecordRange(*EVERYTHING),)))
    require_equal(await bench.ask(ReadRecords("p", (b"k",))), (b"1",), why="here")
    require_equal(await bench.ask(ReadRecords("pp", (b"k",))), (None,), why="emptied")
    require_equal(await other.call(ReadRecords("p", (b"k",))), (b"3",), why="there")


@BOOK.check(
    "records", "Partitions that hold a record are listed in order by prefix; emptied ones are not."
)
async def partitions_are_listed(bench: Bench) -> None:
    for name in ("b", "a:2", "a:1", "a%", "a_", "A:1", "", "ä:1"):
        await bench.ask(WriteRecords(name, (Record(b"k", b"v"),)))
    await bench.ask(WriteRecords("b", (Record(b"k", None),)))
    await bench.ask(WriteRecords("a:3", (Record(b"k", None),)))
    await bench.create(partition="unused")
    found = await bench.ask(ListPartitions())
    require_equal(found, ("", "A:1", "a%", "a:1", "a:2", "a_", "ä:1"), why="all")
    require_equal(await bench.ask(ListPartitions("a:")), ("a:1", "a:2"), why="by prefix")
    require_equal(await bench.ask(ListPartitions("a_")), ("a_",), why="by a prefix with a sign")
    require_equal(await bench.ask(ListPartitions("zz")), (), why="by a prefix of none")
