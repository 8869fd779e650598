"""Tells a person, and a program, what went wrong: one line, a hint, an exit code.

Exit codes: 2 when the call was at fault, 3 when the store or a journal in it is, 1 for the rest.
"""

from __future__ import annotations

import re
from typing import Any, Final

import click

from pyrula_core.cli.text import printable, to_json
from pyrula_core.errors import CallerError, PyrulaError, StoreError

__all__ = ["complain", "error_document", "exit_code"]

FAILED: Final = 1
CALLER: Final = 2
STORE: Final = 3


COMMANDS: Final = {
    "answer": "pyrula runs answer",
    "describe": "pyrula runs show",
    "history": "pyrula runs show --events",
    "list": "pyrula runs list",
    "retry": "pyrula runs retry",
}
"""What to type for a call that a hint names."""
CALL: Final = re.compile(rf"client\.({'|'.join(COMMANDS)})\b(\([^)]*\))?")


def exit_code(error: PyrulaError) -> int:
    """Return the exit code that says who is at fault."""
    match error:
        case CallerError():
            return CALLER
        case StoreError():
            return STORE
        case _:
            return FAILED


def error_document(error: PyrulaError) -> dict[str, Any]:
    """Return an error as ``--json`` shows it."""
    return {
        "error": {
            "code": error.code,
            "message": error.message,
            "hint": hint_of(error) or None,
            "type": type(error).__name__,
        }
    }


def hint_of(error: PyrulaError) -> str:
    """Return an error's hint; where it names a call of Python, also what to type here."""
    return CALL.sub(lambda found: f"{found[0]} ('{COMMANDS[found[1]]}')", error.hint)


def complain(error: PyrulaError, *, as_json: bool) -> None:
    """Print an error: for people to stderr, and with ``as_json`` its document to stdout."""
    if as_json:
        click.echo(to_json(error_document(error)))
    click.echo(f"error[{error.code}]: {printable(error.message)}", err=True)
    if error.hint:
        click.echo(f"hint: {printable(hint_of(error))}", err=True)
