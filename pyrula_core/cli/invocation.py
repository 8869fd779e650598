"""What stood on the command line for every command: the store, the namespace, the output form.

Owns the opening of the store for commands that look at what is there. Must never create a store:
a mistyped path is to be told, not filled with an empty file.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final
from urllib.parse import unquote, urlsplit

import click

from pyrula_core.errors import StoreError
from pyrula_core.ports import Store
from pyrula_core.stores.opening import DEFAULT_URL, open_store

__all__ = ["Invocation", "pass_invocation"]

DEFAULT_NAMESPACE: Final = "default"
MISSING_HINT: Final = (
    "Name the store with --store URL or PYRULA_STORE; "
    "the program that starts the first run creates it"
)


@dataclass(slots=True)
class Invocation:
    """One call of ``pyrula``: ``store`` is a URL or None for the default one.

    ``from_environment`` is True where the store's URL was not written on the command line.
    """

    store: str | None = None
    namespace: str = DEFAULT_NAMESPACE
    as_json: bool = False
    from_environment: bool = False

    @property
    def url(self) -> str:
        """The URL of the store that is meant."""
        return self.store or DEFAULT_URL

    @property
    def options(self) -> list[str]:
        """The options that another call needs to look at the same place."""
        store = [] if self.store is None or self.from_environment else ["--store", self.store]
        usual = self.namespace == DEFAULT_NAMESPACE
        return [*store, *([] if usual else ["--namespace", self.namespace])]

    @contextmanager
    def open(self) -> Iterator[Store]:
        """Open the store and close it afterwards.

        Raises StoreError with code ``store_missing`` where there is none yet, and what
        ``open_store`` raises.
        """
        check_present(self.url)
        store = open_store(self.url, namespace=self.namespace)
        try:
            yield store
        finally:
            store.close()


pass_invocation = click.make_pass_decorator(Invocation, ensure=True)


def check_present(url: str) -> None:
    """Raise StoreError when a store file is not there, or has nothing in it yet."""
    path = file_of(url)
    if path is None:
        return
    try:
        empty = path.is_file() and path.stat().st_size == 0
        absent = not path.exists()
    except OSError as error:
        message = f"the store file {str(path)!r} cannot be looked at: {error.strerror}"
        raise StoreError(message, code="store_unavailable") from None
    if absent or empty:
        found = "is empty" if empty else "does not exist"
        raise StoreError(
            f"there are no runs: the store file {str(path)!r} {found}",
            hint=MISSING_HINT,
            code="store_missing",
        )


def file_of(url: str) -> Path | None:
    """Return the file a URL names; None for other stores and for what ``open_store`` refuses."""
    try:
        parts = urlsplit(url)
    except ValueError:
        return None
    path = unquote(parts.path)[1:]
    if parts.scheme != "sqlite" or parts.netloc or not path or "\0" in path:
        return None
    return None if path.startswith(":memory:") else Path(path)
