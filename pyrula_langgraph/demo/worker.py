"""The process that works the tickets off, and that is killed.

It is told nothing but the demo's folder: what is to be done, and what is done already, stands in
the store. ``python -m pyrula_langgraph.demo.worker demo-run`` starts one by hand. Must never ask
who answers the desk's questions.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import multiprocessing
import os
import signal
import sys
import threading
from pathlib import Path
from typing import Final

from pyrula_core import Client, DurableInvocationError, Engine
from pyrula_core.model import RunKey, RunStatus
from pyrula_langgraph.demo.desk import open_desk
from pyrula_langgraph.demo.site import NAME, Site, kept_site

__all__ = ["run_worker", "work"]

log = logging.getLogger("pyrula.demo")

tickets_at_once: Final = 6
# A successor on the same machine sees that this process is dead and need not wait for its leases
# to run out; where it cannot tell, it waits this long.
lease_seconds: Final = 5.0
# The demo kills on purpose, so a run may well lose its worker many times on one step.
kills_per_step_max: Final = 100_000

ANSWERED: Final = frozenset({RunStatus.QUEUED, RunStatus.RUNNING})


async def work(site: Site) -> None:
    """Take up the run of every ticket, several at once, until each has ended."""
    store = open_desk(site).client.store
    engine = Engine(store, lease_ttl=lease_seconds, max_retries=kills_per_step_max)
    client, slots = Client(engine=engine), asyncio.Semaphore(tickets_at_once)
    async with asyncio.TaskGroup() as group:
        for ticket in site.tickets():
            group.create_task(take_up(client, site.run_id(ticket.ticket), slots))


async def take_up(client: Client, run_id: str, slots: asyncio.Semaphore) -> None:
    """Drive one run to its end; while it waits for a person, others are worked on."""
    try:
        while True:
            async with slots:
                outcome = await client.result(NAME, run_id)
            if outcome.status == RunStatus.COMPLETE:
                return
            await client.settle(RunKey(NAME, run_id), drive=False, until=ANSWERED)
    except DurableInvocationError as error:
        # A failed run is recorded as such, and must not end the work on the others.
        log.warning("run_failed run=%s code=%s", run_id, error.code)


def run_worker(folder: str) -> None:
    """Be the worker: the whole life of a process that the supervisor starts."""
    # A session of its own: Ctrl-C in the terminal is for the supervisor, which then stops the
    # worker by its pid.
    os.setsid()
    site = kept_site(Path(folder))
    with site.log_file.open("ab") as log_file:
        os.dup2(log_file.fileno(), sys.stderr.fileno())
    threading.Thread(target=end_with_parent, daemon=True).start()
    asyncio.run(until_stopped(site))


def end_with_parent() -> None:
    """End this process when the supervisor's has ended, in whatever way."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


async def until_stopped(site: Site) -> None:
    """Work until all is done, or until SIGTERM: then hand the runs back and end."""
    logging.basicConfig(format="%(asctime)s %(process)d %(name)s %(message)s")
    working = asyncio.ensure_future(work(site))
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, working.cancel)
    with contextlib.suppress(asyncio.CancelledError):
        await working


if __name__ == "__main__":
    asyncio.run(until_stopped(kept_site(Path(sys.argv[1]))))
