"""``pyrula demo``: an order desk whose worker is killed again and again, and the proof at the end.

Owns the options, and the order of acts: lay the demo out, see it through, prove, say what is next.
"""

from __future__ import annotations

import asyncio
import random
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click
from click.core import ParameterSource

from pyrula_core import open_store

if TYPE_CHECKING:
    from pyrula_langgraph.demo.proof import Proof
    from pyrula_langgraph.demo.site import Site
    from pyrula_langgraph.demo.supervisor import Supervisor

__all__ = ["demo"]

FOLDER: Final = Path("demo-run")
kills_default: Final = 10
kills_max: Final = 1000
seed_max: Final = 9999
stopped_exit_code: Final = 130


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.option(
    "--kills",
    type=click.IntRange(0, kills_max),
    default=kills_default,
    show_default=True,
    help="How often the worker is killed while it works.",
)
@click.option("--no-kill", is_flag=True, help="Let the worker live.")
@click.option("--seed", type=int, help="Draw the moments of the kills as another demo did.")
@click.option("--store", metavar="URL", help="Where to journal.  [default: a fresh SQLite file]")
@click.option(
    "--tickets",
    "tickets_file",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="Tickets of your own: JSONL with ticket, customer, email, subject, body.",
)
@click.option(
    "--model",
    metavar="NAME",
    default="scripted",
    show_default=True,
    help="'scripted' needs no key, 'auto' looks for one in the environment; or provider:model.",
)
@click.option("--keep", is_flag=True, help=f"Go on with the demo in ./{FOLDER}.")
@click.pass_context
def demo(
    context: click.Context,
    *,
    kills: int,
    no_kill: bool,
    seed: int | None,
    store: str | None,
    tickets_file: Path | None,
    model: str,
    keep: bool,
) -> None:
    """Kill a LangGraph agent again and again, and watch it finish.

    An order desk works through the tickets of a small shop: it looks orders up, refunds, asks a
    person before it refunds much, and replies. Its worker is killed with SIGKILL at random moments
    and started again. At the end the journal is checked against a ledger of what reached the
    outside world; the exit code is 0 when all is proven. Files are written to ./demo-run.
    """
    if find_spec("langchain") is None:
        raise click.ClickException("the demo needs LangChain: pip install 'pyrula[agent]'")
    # Imported here, so that mistakes in the call are answered at once.
    from pyrula_langgraph.demo.site import reserved

    store = store or given_globally(context)
    if keep and (store or tickets_file or model != "scripted"):
        raise click.UsageError("--keep goes on as it began: without --store, --tickets, --model")
    if seed is None:
        seed = random.SystemRandom().randint(1, seed_max)
    try:
        with reserved(FOLDER):
            site = lay_out(keep=keep, tickets_file=tickets_file, store=store, model=model)
            code = see_through(site, kills=0 if no_kill else kills, seed=seed)
    except BlockingIOError:
        raise click.ClickException(f"another demo is running in ./{FOLDER}") from None
    context.exit(code)


def given_globally(context: click.Context) -> str | None:
    """Return the store of ``pyrula --store URL demo``.

    PYRULA_STORE does not count: that store is in use, and a demo would be a surprise there.
    """
    above = context.parent
    if above is None or above.get_parameter_source("store") is not ParameterSource.COMMANDLINE:
        return None
    given = above.params.get("store")
    return given if isinstance(given, str) else None


def lay_out(*, keep: bool, tickets_file: Path | None, store: str | None, model: str) -> Site:
    """Return the demo that is meant: the one in the folder, or a fresh one."""
    from pyrula_langgraph.demo.site import SETTINGS, fresh_site, kept_site, read_tickets
    from pyrula_langgraph.demo.tickets import load_tickets

    try:
        if keep:
            return kept_site(FOLDER)
        tickets = load_tickets() if tickets_file is None else read_tickets(tickets_file)
    except FileNotFoundError:
        raise click.ClickException(f"there is no demo in ./{FOLDER} to go on with") from None
    except ValueError as problem:
        raise click.ClickException(str(problem)) from None
    check_model(model)
    check_store(store)
    if (FOLDER / SETTINGS).exists():
        click.echo(f"Replacing the demo that was in ./{FOLDER} (--keep would go on with it).")
    foreseen = tickets_file is None and model == "scripted"
    return fresh_site(FOLDER, tickets, store=store, model=model, foreseen=foreseen)


def check_model(model: str) -> None:
    """Refuse a model that cannot be used before anything is written."""
    from pyrula_langgraph.demo.desk_model import choose_model

    try:
        choose_model(model)
    except Exception as problem:
        # A provider's package raises errors of its own when a key is missing.
        raise click.ClickException(f"the model {model!r} cannot be used: {problem}") from problem


def check_store(store: str | None) -> None:
    """Refuse a store that cannot be opened, or that a killed worker would take with it."""
    if store is None:
        return
    if store.startswith("memory:"):
        raise click.UsageError("a journal in memory would die with the worker; name a file")
    open_store(store).close()


def see_through(site: Site, *, kills: int, seed: int) -> int:
    """Run the demo to its end, prove it and say what is next; returns the exit code."""
    from pyrula_langgraph.demo.kills import KillPlan
    from pyrula_langgraph.demo.narration import Narration
    from pyrula_langgraph.demo.screen import screen_on
    from pyrula_langgraph.demo.supervisor import Supervisor, WorkerFailed

    narration = Narration()
    narration.begin(site, kills=kills, seed=seed)
    try:
        with screen_on(narration.console) as screen:
            supervisor = Supervisor(site, KillPlan(kills, seed), screen)
            proof = asyncio.run(played(supervisor))
    except KeyboardInterrupt:
        narration.stopped(kills=kills)
        return stopped_exit_code
    except WorkerFailed as problem:
        raise click.ClickException(str(problem)) from None
    narration.prove(proof, supervisor.board)
    narration.suggest(site, supervisor.board)
    return 0 if proof.ok else 1


async def played(supervisor: Supervisor) -> Proof:
    """See the work through and prove it."""
    from pyrula_langgraph.demo.proof import gather, prove

    try:
        await supervisor.run()
        return prove(await gather(supervisor.site, supervisor.client))
    finally:
        supervisor.client.store.close()
