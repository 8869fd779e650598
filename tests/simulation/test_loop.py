"""Virtual time: it jumps, it repeats itself, and it lets nothing real in."""

from __future__ import annotations

import asyncio
import socket
import threading
import time

import pytest

from pyrula_core.testing import SimClock, SimLoop, SimOverrun, SimStuck, run_simulated
from pyrula_core.testing.sim_process import SimProcess


async def test_days_pass_in_milliseconds_also_beside_a_running_loop() -> None:
    async def days() -> float:
        loop = asyncio.get_running_loop()
        async with asyncio.timeout(10 * 86_400):
            await asyncio.gather(asyncio.sleep(86_400), asyncio.sleep(3 * 86_400))
        return loop.time()

    began = time.monotonic()
    assert run_simulated(days()) == 3 * 86_400
    assert time.monotonic() - began < 5.0


def noted(seed: int) -> list[str]:
    """Return in which order two processes and their timers came to their turn."""
    loop, order = SimLoop(seed), []

    async def work(name: str) -> None:
        for number in range(3):
            order.append(f"{name}{number}")
            await asyncio.sleep(0)
        await asyncio.sleep(1.0)
        order.append(f"{name} late")

    async def both() -> None:
        one, other = SimProcess("one"), SimProcess("other")
        await asyncio.gather(loop.spawn(one, work("a")), loop.spawn(other, work("b")))

    loop.run_until_complete(both())
    loop.close()
    return order


def test_a_seed_gives_the_same_order_and_seeds_differ() -> None:
    assert noted(4) == noted(4)
    assert len({tuple(noted(seed)) for seed in range(8)}) > 1


def test_within_a_process_callbacks_come_in_the_order_of_asyncio() -> None:
    for seed in range(8):
        for name in "ab":
            mine = [entry for entry in noted(seed) if entry.startswith(name)]
            assert mine == [f"{name}0", f"{name}1", f"{name}2", f"{name} late"]


def test_a_killed_process_does_nothing_more_not_even_its_finally_blocks() -> None:
    loop, ran = SimLoop(), []
    victim = SimProcess("victim")

    async def work() -> None:
        try:
            await asyncio.sleep(5.0)
            ran.append("slept")
        finally:
            ran.append("finally")

    async def world() -> None:
        loop.spawn(victim, work())
        await asyncio.sleep(1.0)
        victim.crash()
        await asyncio.sleep(100.0)
        assert ran == []

    loop.run_until_complete(world())
    loop.close()


def test_a_frozen_process_goes_on_when_it_is_back() -> None:
    loop, ran = SimLoop(), []
    sleeper = SimProcess("sleeper")

    async def work() -> None:
        await asyncio.sleep(1.0)
        ran.append(loop.time())

    async def world() -> None:
        loop.spawn(sleeper, work())
        sleeper.freeze(until=60.0)
        for _ in range(100):
            await asyncio.sleep(1.0)

    loop.run_until_complete(world())
    loop.close()
    assert ran == [61.0]


def test_a_process_has_a_wall_clock_of_its_own_that_can_be_wrong() -> None:
    loop, process = SimLoop(), SimProcess("off")
    right, wrong = SimClock(loop), SimClock(loop, process)
    process.jump(-3600.0)
    assert wrong.time() == right.time() - 3600.0
    assert wrong.monotonic() == right.monotonic()
    loop.close()


async def thread() -> None:
    await asyncio.to_thread(print)


async def bare_thread() -> None:
    threading.Thread(target=print).start()


async def connection() -> None:
    await asyncio.open_connection("127.0.0.1", 9)


async def bare_connection() -> None:
    with socket.socket() as bare:
        bare.connect(("127.0.0.1", 9))


async def handler() -> None:
    asyncio.get_running_loop().add_signal_handler(15, print)


@pytest.mark.parametrize("real", [thread, bare_thread, connection, bare_connection, handler])
def test_what_is_real_is_refused(real) -> None:
    with pytest.raises(RuntimeError, match="only virtual time and one thread"):
        run_simulated(real())


def test_other_threads_may_go_on_while_a_simulation_runs() -> None:
    done = threading.Event()

    async def simulated() -> None:
        assert done.wait(10.0)

    def elsewhere() -> None:
        threading.Thread(target=done.set).start()

    outer = threading.Timer(0.01, elsewhere)
    outer.start()
    run_simulated(simulated())
    outer.join()


def test_waiting_for_what_never_comes_is_an_error_that_names_the_task() -> None:
    async def forever() -> None:
        waiting = asyncio.create_task(asyncio.Event().wait(), name="the waiter")
        await waiting

    with pytest.raises(SimStuck, match="the waiter"):
        run_simulated(forever())


def test_a_loop_without_an_end_is_an_error() -> None:
    async def endless() -> None:
        for _ in range(10**9):
            await asyncio.sleep(0)

    with pytest.raises(SimOverrun, match="too many turns"):
        run_simulated(endless())


def test_asynchronous_generators_are_ended() -> None:
    ended = []

    async def numbers():
        try:
            yield 1
            yield 2
        finally:
            ended.append("generator")

    async def first() -> int:
        async for number in numbers():
            return number
        return 0

    async def main() -> int:
        found = await first()
        await asyncio.sleep(1.0)
        return found

    assert run_simulated(main()) == 1
    assert ended == ["generator"]
