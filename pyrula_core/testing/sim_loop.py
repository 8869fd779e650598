"""An event loop without real time: it jumps to the next timer and repeats itself for the same seed.

Owns virtual time and the order in which ready callbacks run. Within one process that is the order
of asyncio, first come, first served, since code may rely on it; between processes, and between
timers that are due together, it is drawn from the seed. Must never block: threads, sockets and
signals are refused.
"""

from __future__ import annotations

import asyncio
import contextvars
import functools
import heapq
import itertools
import random
import sys
import threading
from collections.abc import AsyncGenerator, Callable, Coroutine, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import Any, Final, NoReturn, TypeVar, TypeVarTuple

from pyrula_core.testing.sim_guard import guarded, refusal
from pyrula_core.testing.sim_process import PROCESS, SimProcess

__all__ = ["SimClock", "SimLoop", "SimOverrun", "SimStuck", "run_simulated"]

T = TypeVar("T")
Ts = TypeVarTuple("Ts")

wall_clock_start_s: Final = 1_000_000_000.0
turns_max: Final = 200_000
virtual_days_max: Final = 3650


REFUSED: Final[Mapping[str, str]] = {
    "run_in_executor": "a thread (to_thread, a sync step with timeout=)",
    "getaddrinfo": "a network address",
    "create_connection": "a network connection",
    "create_datagram_endpoint": "a network connection",
    "create_server": "a network server",
    "add_reader": "a file descriptor",
    "add_writer": "a file descriptor",
    "add_signal_handler": "a signal handler",
    "subprocess_exec": "a subprocess",
    "subprocess_shell": "a subprocess",
}
"""Methods of event loops that a simulation has not, and what each would bring in."""


class SimStuck(RuntimeError):
    """Every task waits for something, and nothing that is still to come will bring it."""


class SimOverrun(RuntimeError):
    """The simulation goes on and on: an endless loop, or a wait that is never over."""


class _Soon(asyncio.Handle):
    __slots__ = ("process",)
    process: SimProcess | None

    def run(self) -> None:
        """Call back, unless it was cancelled."""
        if not self.cancelled():
            self._run()


class _Timer(asyncio.TimerHandle):
    __slots__ = ("process",)
    process: SimProcess | None

    def run(self) -> None:
        """Call back, unless it was cancelled."""
        if not self.cancelled():
            self._run()


Ready = _Soon | _Timer


class SimLoop(asyncio.BaseEventLoop):
    """A deterministic event loop on virtual time.

    ``shuffle`` also draws the order of callbacks within one process, which asyncio never does:
    for code that must not depend on it. ``complaints`` collects what asyncio would have logged,
    such as exceptions that nobody looked at. Raises SimStuck and SimOverrun while it runs.

    >>> loop = SimLoop(seed=1)
    >>> loop.run_until_complete(asyncio.sleep(86_400.0))
    >>> loop.time()
    86400.0
    >>> loop.close()
    """

    def __init__(self, seed: int = 0, *, shuffle: bool = False, turns_max: int = turns_max) -> None:
        self._thread: int | None = None  # First: the base class asks whether we run already.
        super().__init__()
        self.seed = seed
        self.random = random.Random(seed)
        self.shuffle = shuffle
        self.complaints: list[dict[str, Any]] = []
        self.turns_left = turns_max
        self._now = 0.0
        self._soon: list[Ready] = []
        self._timers: list[tuple[float, float, int, _Timer]] = []
        self._numbers = itertools.count()
        self._halt = False
        self._processes: list[SimProcess] = [SimProcess("world")]
        for name, what in REFUSED.items():
            setattr(self, name, functools.partial(refuse, what))

    # --- time and callbacks -----------------------------------------------------------------------

    def time(self) -> float:
        """Return the virtual time, in seconds since the loop began."""
        return self._now

    def call_soon(
        self,
        callback: Callable[[*Ts], object],
        *args: *Ts,
        context: contextvars.Context | None = None,
    ) -> asyncio.Handle:
        """Have ``callback`` called in the next turn."""
        context = contextvars.copy_context() if context is None else context
        handle = _Soon(callback, args, self, context)
        handle.process = context.get(PROCESS)
        self._soon.append(handle)
        return handle

    def call_soon_threadsafe(
        self,
        callback: Callable[[*Ts], object],
        *args: *Ts,
        context: contextvars.Context | None = None,
    ) -> asyncio.Handle:
        """As ``call_soon``; raises RuntimeError in any other thread, whose timing is real."""
        if self._thread not in (None, threading.get_ident()):
            raise refusal("a callback from another thread")
        return self.call_soon(callback, *args, context=context)

    def call_later(
        self,
        delay: float,
        callback: Callable[[*Ts], object],
        *args: *Ts,
        context: contextvars.Context | None = None,
    ) -> asyncio.TimerHandle:
        """Have ``callback`` called after ``delay`` virtual seconds."""
        return self.call_at(self._now + delay, callback, *args, context=context)

    def call_at(
        self,
        when: float,
        callback: Callable[[*Ts], object],
        *args: *Ts,
        context: contextvars.Context | None = None,
    ) -> asyncio.TimerHandle:
        """Have ``callback`` called at a virtual time; equal times come in the seed's order."""
        context = contextvars.copy_context() if context is None else context
        timer = _Timer(when, callback, args, self, context)
        timer.process = context.get(PROCESS)
        entry = (when, self.random.random(), next(self._numbers), timer)
        heapq.heappush(self._timers, entry)
        return timer

    def _timer_handle_cancelled(self, handle: asyncio.TimerHandle) -> None:
        """Leave a cancelled timer where it is; it is passed over when its time comes."""

    # --- processes --------------------------------------------------------------------------------

    def spawn(self, process: SimProcess, work: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
        """Start ``work`` as part of ``process``, along with everything it starts in turn."""
        context = contextvars.copy_context()
        context.run(PROCESS.set, process)
        return self.create_task(work, name=process.name, context=context)

    def create_task(
        self, coro: Any, *, context: contextvars.Context | None = None, **options: Any
    ) -> asyncio.Task[Any]:
        """Start a task; its process keeps it, so that a killed one's are not collected early."""
        task = super().create_task(coro, context=context, **options)
        process = PROCESS.get() if context is None else context.get(PROCESS)
        owner = self._processes[0] if process is None else process
        if owner not in self._processes:
            self._processes.append(owner)
        owner.tasks.append(task)
        return task

    # --- running ----------------------------------------------------------------------------------

    def run_forever(self) -> None:
        """Run turns until ``stop``; raises SimStuck when no turn can ever come."""
        assert not self.is_closed(), "a closed loop runs nothing"
        self._thread, self._halt = threading.get_ident(), False
        hooks = sys.get_asyncgen_hooks()
        sys.set_asyncgen_hooks(firstiter=None, finalizer=self._end_generator)
        asyncio.events._set_running_loop(self)  # noqa: SLF001 - documented for loops
        try:
            while not self._halt:
                self._turn()
        finally:
            asyncio.events._set_running_loop(None)  # noqa: SLF001 - documented for loops
            sys.set_asyncgen_hooks(*hooks)
            self._thread = None

    def stop(self) -> None:
        """End ``run_forever`` after this turn."""
        self._halt = True

    def is_running(self) -> bool:
        """Tell whether ``run_forever`` is at work."""
        return self._thread is not None

    def _turn(self) -> None:
        self.turns_left -= 1
        if self.turns_left < 0:
            raise SimOverrun(f"seed {self.seed}: too many turns, {self._tasks_named()}")
        if not self._soon:
            self._jump()
        self._take_due()
        batch, self._soon = self._soon, []
        for handle in self._in_order(batch):
            process = handle.process
            if process is None or self._may_run(process, handle):
                handle.run()

    def _may_run(self, process: SimProcess, handle: Ready) -> bool:
        """Tell whether a process is there to be called; a frozen one is called when it is back."""
        if process.dead:
            return False
        if process.frozen_until > self._now:
            context = contextvars.Context()
            context.run(PROCESS.set, None)
            self.call_at(process.frozen_until, self._resume, handle, context=context)
            return False
        return True

    def _resume(self, handle: Ready) -> None:
        self._soon.append(handle)

    def _in_order(self, batch: list[Ready]) -> Sequence[Ready]:
        """Return a turn's callbacks in the seed's order; each process keeps its own."""
        if len(batch) < 2:
            return batch
        if self.shuffle:
            self.random.shuffle(batch)
            return batch
        queues: dict[SimProcess | None, list[Ready]] = {}
        for handle in batch:
            queues.setdefault(handle.process, []).append(handle)
        if len(queues) == 1:
            return batch
        turns = [process for process, queue in queues.items() for _ in queue]
        self.random.shuffle(turns)
        iterators = {process: iter(queue) for process, queue in queues.items()}
        return [next(iterators[process]) for process in turns]

    def _jump(self) -> None:
        """Let time pass until the next timer that is still wanted."""
        self._drop_stale()
        if not self._timers:
            raise SimStuck(f"seed {self.seed}: nothing is left to happen, {self._tasks_named()}")
        self._now = max(self._now, self._timers[0][0])
        if self._now > virtual_days_max * 86_400.0:
            raise SimOverrun(f"seed {self.seed}: {virtual_days_max} days, {self._tasks_named()}")

    def _drop_stale(self) -> None:
        while self._timers:
            timer = self._timers[0][3]
            if not timer.cancelled() and not (timer.process and timer.process.dead):
                return
            heapq.heappop(self._timers)

    def _take_due(self) -> None:
        while self._timers and self._timers[0][0] <= self._now:
            self._soon.append(heapq.heappop(self._timers)[3])

    def _tasks_named(self) -> str:
        waiting = [
            task.get_name()
            for process in self._processes
            for task in process.tasks
            if not (process.dead or task.done())
        ]
        return f"tasks waiting: {', '.join(waiting) or 'none'}"

    # --- the end ----------------------------------------------------------------------------------

    def close(self) -> None:
        """Close the loop and whatever is still suspended on it; no code of it can run later."""
        if self.is_closed():
            return
        super().close()
        for process in self._processes:
            process.dead = True
            for task in reversed(process.tasks):
                if not task.done():
                    close_quietly(task.get_coro())
            process.tasks.clear()
        self._soon.clear()
        self._timers.clear()

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        """Keep a complaint instead of logging it; what a crash left behind is none."""
        process = PROCESS.get()
        if not self.is_closed() and not (process and process.dead):
            self.complaints.append(context)

    def _end_generator(self, generator: AsyncGenerator[Any, Any]) -> None:
        if not self.is_closed():
            self.call_soon(self.create_task, generator.aclose())


class SimClock:
    """The clocks of one process of a simulation; without a process, those of the world."""

    def __init__(self, loop: SimLoop, process: SimProcess | None = None) -> None:
        self._loop = loop
        self._process = process

    def time(self) -> float:
        """Seconds since the epoch, wrong by as much as the process's clock is."""
        offset = 0.0 if self._process is None else self._process.wall_offset
        return wall_clock_start_s + self._loop.time() + offset

    def monotonic(self) -> float:
        """Virtual seconds that never go back."""
        return self._loop.time()


def refuse(what: str, *_: Any, **__: Any) -> NoReturn:
    """Refuse something real."""
    raise refusal(what)


def close_quietly(work: Any) -> None:
    """Close a coroutine that will never go on, whatever its ``finally`` blocks say to that."""
    with suppress(BaseException):  # The process is dead: nobody is there to be told.
        work.close()


@contextmanager
def simulation(
    seed: int, *, shuffle: bool = False, turns_max: int = turns_max
) -> Iterator[SimLoop]:
    """Give a loop with its guard, and close it afterwards."""
    loop = SimLoop(seed, shuffle=shuffle, turns_max=turns_max)
    try:
        with guarded():
            yield loop
    finally:
        loop.close()


def run_simulated(work: Coroutine[Any, Any, T], *, seed: int = 0, shuffle: bool = False) -> T:
    """Run a coroutine to its end on virtual time and return its result.

    May be called from anywhere: where a loop is running already, the simulation gets a thread of
    its own, and the caller waits for it. The same ``seed`` gives the same order of things. Raises
    what ``work`` raises, SimStuck when it waits for ever, SimOverrun when it never ends.

    >>> async def two_days() -> str:
    ...     await asyncio.sleep(172_800)
    ...     return "done"
    >>> run_simulated(two_days())
    'done'
    """

    def run() -> T:
        with simulation(seed, shuffle=shuffle) as loop:
            return loop.run_until_complete(work)

    return beside_running_loops(run)


def beside_running_loops(run: Callable[[], T]) -> T:
    """Call ``run`` where it can start an event loop: here, or in a thread when one runs here."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return run()
    answer: list[T] = []
    failure: list[BaseException] = []

    def catch() -> None:
        try:
            answer.append(run())
        except BaseException as error:  # noqa: BLE001 - carried to the caller
            failure.append(error)

    thread = threading.Thread(target=catch, name="pyrula simulation")
    thread.start()
    thread.join()
    if failure:
        raise failure[0]
    return answer[0]
