"""Runs workflows in the calling process, without a worker."""

from __future__ import annotations

from typing import Any, Final

from pyrula_core.client import AT_REST, Client
from pyrula_core.engine import Engine
from pyrula_core.model import RunKey, RunOutcome, RunStatus
from pyrula_core.ports import Head, Store
from pyrula_core.registry import REGISTRY, Registry

__all__ = ["InlineWorkflowRunner"]

NOWHERE_TO_GO: Final = AT_REST | {RunStatus.WAITING}


class InlineWorkflowRunner:
    """Starts a run, or picks it up where it stands, and drives it here until it can go no further.

    ``store`` is a Store or its URL.
    """

    def __init__(
        self,
        store: Store | str | None = None,
        *,
        registry: Registry = REGISTRY,
        engine: Engine | None = None,
    ) -> None:
        self.client = Client(store, registry=registry, engine=engine)

    async def run(self, name: str, run_id: str, *args: Any) -> RunOutcome:
        """Run ``name`` with ``args`` as ``run_id``; called again, it resumes from the journal.

        Returns a RunOutcome with status ``complete``, ``interrupted``, ``paused`` or ``waiting``
        (for a signal, or for a timer that is more than a few seconds away). Called without
        ``args`` for a run that exists, it resumes it with its recorded input.

        Raises what ``Client.run_and_await`` raises, and StoreUnavailable when the store went away:
        the run is safe, and a later call resumes it.
        """
        key = RunKey(name, run_id)
        if args or await self.client.store.call(Head(key)) is None:
            await self.client.start(name, *args, run_id=run_id)
        return await self.client.settle(key, until=NOWHERE_TO_GO)
