"""``pyrula demo``: an order desk whose worker is killed again and again, and the proof at the end.

Owns the options and the words at the beginning and the end. Everything that happens in between is
the supervisor's.
"""

from __future__ import annotations

import asyncio
import random
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click
from rich.console import Console

if TYPE_CHECKING:
    from pyrula_langgraph.demo.site import Site

__all__ = ["demo"]

FOLDER: Final = Path("demo-run")
kills_default: Final = 10
kills_max: Final = 1000
seed_max: Final = 9999
interrupted_exit_code: Final = 130


@click.command(short_help="Kill a graph again and again, and watch it finish.")
@click.option(
    "--kills",
    type=click.IntRange(0, kills_max),
    default=kills_default,
    show_default=True,
    help="How often the worker is killed with SIGKILL while it works.",
)
@click.option("--no-kill", is_flag=True, help="Let the worker live.")
@click.option("--seed", type=int, help="Draw the moments of the kills as another demo did.")
@click.option("--store", metavar="URL", help="Keep the journal there. [default: a fresh SQLite file]")
@click.option(
    "--tickets",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="Your own tickets: JSONL with ticket, customer, email, subject, body.",
)
@click.option(
    "--model",
    metavar="NAME",
    default="scripted",
    show_default=True,
    help="'scripted' needs no key; 'auto' takes a provider whose key is set; or provider:model.",
)
@click.option("--keep", is_flag=True, help=f"Go on with the demo in ./{FOLDER}, do not start anew.")
@click.pass_context
def demo(
    context: click.Context,
    *,
    kills: int,
    no_kill: bool,
    seed: int | None,
    store: str | None,
    tickets: Path | None,
    model: str,
    keep: bool,
) -> None:
    """Kill a LangGraph agent with SIGKILL again and again, and watch it finish.

    An order desk works through the tickets of a small shop: it looks orders up, refunds, asks a
    person before it refunds much, and replies. What it does is kept in a ledger that knows nothing
    of the engine. At the end journal and ledger are checked against each other; the exit code is 0
    when all is proven. Files are written to ./demo-run.
    """
    if find_spec("langchain") is None:
        raise click.ClickException("the demo needs LangChain: pip install 'pyrula[agent]'")
    # Imported here: help and mistakes in the call are answered at once.
    from pyrula_langgraph.demo.showing import run_demo
    from pyrula_langgraph.demo.site import reserved

    if keep and (store or tickets or model != "scripted"):
        raise click.UsageError("--keep goes on as the demo began, without --store, --tickets, --model")
