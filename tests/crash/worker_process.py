"""A worker process for tests: serves one slow workflow from the store named on its command line."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from typing import Any

from pyrula_core import Worker, WorkerOptions, workflow


@workflow(name="slow")
async def slow(ctx: Any, folder: str) -> str:
    """Take three steps of a moment each; every one leaves a line behind."""
    for name in ("one", "two", "three"):
        await ctx.step(name, work, folder, name)
    return "done"


async def work(folder: str, name: str) -> None:
    """Leave a line, then take a moment."""
    with (Path(folder) / "effects").open("a") as effects:
        effects.write(f"{name}\n")
    await asyncio.sleep(0.3)


if __name__ == "__main__":
    asyncio.run(Worker(sys.argv[1], WorkerOptions(lock_ttl=60)).run())
