"""What tests ask of a finished run."""

from __future__ import annotations

from pyrula_core import InlineWorkflowRunner


async def types_of(runner: InlineWorkflowRunner, run_id: str) -> list[str]:
    return [str(event.type) for event in await runner.client.history("w", run_id)]
