"""``pyrula runs pause | resume | cancel | retry | answer``: what a person asks of a run.

Owns nothing but the way to the client: the rules are the client's.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, NoReturn

import click

from pyrula_core.cli.application import check_codec
from pyrula_core.cli.documents import row_document
from pyrula_core.cli.finding import find_run
from pyrula_core.cli.invocation import Invocation, pass_invocation
from pyrula_core.cli.options import app_option, common_options, examples, run_argument
from pyrula_core.cli.target import load_target
from pyrula_core.cli.text import to_json
from pyrula_core.errors import RunFinishedError
from pyrula_core.model import RunKey, RunRow, RunStatus

if TYPE_CHECKING:
    from pyrula_core.client import Client

__all__ = ["answer_run", "cancel_run", "pause_run", "resume_run", "retry_run"]

Act = Callable[["Client", RunKey], Awaitable[None]]

reason_option = click.option(
    "--reason", metavar="TEXT", default="", help="Why; it is recorded in the journal."
)


@click.command("pause", epilog=examples("pyrula runs pause run-1 --reason 'bank is down'"))
@run_argument
@reason_option
@common_options
@pass_invocation
def pause_run(invocation: Invocation, run_id: str, name: str | None, reason: str) -> None:
    """Pause a run: it stops at its next durable boundary and stays until it is resumed."""
    steer(
        invocation,
        run_id,
        name,
        lambda client, key: client.pause(key.name, key.run_id, reason=reason),
    )


@click.command("resume", epilog=examples("pyrula runs resume run-1"))
@run_argument
@reason_option
@common_options
@pass_invocation
def resume_run(invocation: Invocation, run_id: str, name: str | None, reason: str) -> None:
    """Let a paused run go on."""
    steer(
        invocation,
        run_id,
        name,
        lambda client, key: client.resume(key.name, key.run_id, reason=reason),
    )


@click.command("cancel", epilog=examples("pyrula runs cancel run-1 --reason 'order withdrawn'"))
@run_argument
@reason_option
@common_options
@pass_invocation
def cancel_run(invocation: Invocation, run_id: str, name: str | None, reason: str) -> None:
    """Cancel a run: no new step starts. A run that nobody holds ends at once."""
    steer(
        invocation,
        run_id,
        name,
        lambda client, key: client.cancel(key.name, key.run_id, reason=reason),
    )


@click.command(
    "answer",
    epilog=examples(
        "pyrula runs answer run-1 3f2a... true",
        "pyrula runs answer run-1 3f2a... '{\"approved\": false}'",
        "pyrula runs answer chat/r-7 3f2a... '\"yes\"' --app my_agent",
    ),
)
@run_argument
@click.argument("interrupt_id", metavar="INTERRUPT_ID")
@click.argument("value", metavar="VALUE_JSON")
@app_option
@common_options
@pass_invocation
def answer_run(
    invocation: Invocation,
    run_id: str,
    name: str | None,
    interrupt_id: str,
    value: str,
    app: str | None,
) -> None:
    """Answer a question that a run has put to a person.

    'pyrula runs show RUN_ID' lists the open questions with their ids. The answer is recorded; the
    run goes on with it in a process that serves its name.
    """
    answer = read_json(value)
    if app is not None:
        load_target(app)

    async def act(client: Client, key: RunKey) -> None:
        await check_known(client, key, app)
        await client.answer(key.name, key.run_id, interrupt_id, answer)

    steer(invocation, run_id, name, act)


@click.command(
    "retry",
    epilog=examples(
        "pyrula runs retry run-1",
        "pyrula runs retry chat-7 --app my_agent --store sqlite:///runs.db",
    ),
)
@run_argument
@app_option
@common_options
@pass_invocation
def retry_run(invocation: Invocation, run_id: str, name: str | None, app: str | None) -> None:
    """Retry a failed run: a new run keeps what was recorded and runs the rest again.

    Nothing is executed here. The same retry again tells of the same new run. The run of a wrapped
    graph needs --app. --json prints the new run: {"run": {...}}.
    """
    # Imported here: listings do not need what drives runs.
    from pyrula_core.client import Client

    if app is not None:
        load_target(app)
    with invocation.open() as store:
        failed = find_run(store, run_id, name)
        client = Client(store)

        async def act_and_look() -> RunRow:
            if failed.status is RunStatus.ERROR:
                await check_known(client, failed.key, app)
            new = await client.retry(failed.key.name, failed.key.run_id)
            return await client.head(RunKey(failed.key.name, new))

        after = asyncio.run(act_and_look())
        definition = client.registry.find(after.key.name, after.version)
    if invocation.as_json:
        click.echo(to_json({"run": row_document(after)}))
        return
    click.echo(f"{failed.key}: retried as {after.key}, which is {after.shown_status}")
    if not after.status.ended:
        graph = definition is not None and definition.executor is not None
        again = f"await bot.retry({failed.key.run_id!r}) in your program"
        plain = f"run your program again with run_id={after.key.run_id!r}"
        click.echo(f"To drive it, {again if graph else plain}, or start a worker")


def steer(invocation: Invocation, run_id: str, name: str | None, act: Act) -> None:
    """Do something to a run, then tell where it stands."""
    # Imported here: listings do not need what drives runs.
    from pyrula_core.client import Client

    with invocation.open() as store:
        before = find_run(store, run_id, name)
        client = Client(store)

        async def act_and_look() -> RunRow:
            try:
                await act(client, before.key)
            except RunFinishedError as error:
                raise nothing_left(error, await client.head(before.key)) from None
            return await client.head(before.key)

        after = asyncio.run(act_and_look())
    if invocation.as_json:
        click.echo(to_json({"run": row_document(after)}))
    else:
        click.echo(told(before, after))


def told(before: RunRow, after: RunRow) -> str:
    """Return where a run stands now, and who moves it next."""
    if after.seq == before.seq:
        return f"{after.key}: nothing had to change, it is {after.shown_status}"
    text = f"{after.key}: recorded, it is {after.shown_status} now"
    if after.shown_status is RunStatus.QUEUED:
        return f"{text} and goes on in a process that serves {after.key.name!r}"
    if after.shown_status is RunStatus.RUNNING:
        return f"{text} and learns of it at its next durable boundary"
    return text


def nothing_left(error: RunFinishedError, row: RunRow) -> RunFinishedError:
    """Return the error of a run that has ended with the hint that fits how it ended."""
    if row.status is RunStatus.ERROR:
        hint = f"Go on from where it failed with 'pyrula runs retry {row.key}'"
    else:
        hint = "Nothing is left to do for it; start a new run, with a new run_id"
    return RunFinishedError(error.message, hint=hint, code=error.code)


async def check_known(client: Client, key: RunKey, app: str | None) -> None:
    """Refuse to write in another encoding than the one the run will read."""
    row = await client.head(key)
    history = await client.history(key.name, key.run_id)
    check_codec(row, history, client.codecs_of(row)[0], app=app)


def read_json(text: str) -> Any:
    """Return the value of a JSON argument; raises a usage error."""
    try:
        return json.loads(text, parse_constant=refuse_constant)
    except (ValueError, RecursionError) as error:
        raise click.BadParameter(
            f"it is not JSON ({error}); a text needs its own quotes: '\"yes\"'",
            param_hint="VALUE_JSON",
        ) from None


def refuse_constant(name: str) -> NoReturn:
    """Refuse NaN and the infinities, which JSON does not have."""
    raise ValueError(f"JSON has no {name}")
