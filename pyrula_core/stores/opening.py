"""Turns a store URL into an open store.

Owns the grammar of store URLs. Must never guess: what it does not understand is an error that says
what would be.
"""

from __future__ import annotations

import os
from typing import Final
from urllib.parse import SplitResult, parse_qsl, unquote, urlsplit

from pyrula_core.errors import StoreUrlError
from pyrula_core.model import Durability
from pyrula_core.ports import Clock, Store
from pyrula_core.stores.memory import MemoryStore

__all__ = ["DEFAULT_URL", "open_store"]

DEFAULT_URL: Final = "sqlite:///pyrula.db"
ENVIRONMENT: Final = "PYRULA_STORE"
SQLITE_OPTIONS: Final = frozenset({"durability"})
REDIS_SCHEMES: Final = frozenset(
    {"redis", "rediss", "unix", "redis+sentinel", "rediss+sentinel", "redis+cluster"}
    | {"rediss+cluster", "valkey", "valkeys"}
)
ACCEPTED: Final = "Use 'sqlite:///relative/path.db', 'sqlite:////absolute/path.db' or 'memory://'"


def open_store(
    url: str | None = None,
    *,
    namespace: str = "default",
    clock: Clock | None = None,
    **options: str,
) -> Store:
    """Open the store a URL names; close it with ``close()`` or by using it in a ``with``.

    ``url`` None means the environment variable PYRULA_STORE, or, where that is not set, the file
    ``pyrula.db`` in the working directory (``sqlite:///pyrula.db``). Accepted are ``memory://``,
    ``sqlite:///relative.db`` and ``sqlite:////absolute.db``. SQLite takes the option
    ``durability``, also as a query of the URL: ``machine`` (the default: an acknowledged write
    survives a loss of power) or ``process`` (it survives a kill of this process). Stores on one
    file share one writer per process.

    Raises StoreUrlError for any other URL or option, NotAPyrulaStore or JournalTooNew for a file
    that is not ours to use, and StoreUnavailable when the file cannot be opened.

    >>> with open_store("memory://") as store:
    ...     store.url
    'memory://'
    """
    if url is None:
        url = os.environ.get(ENVIRONMENT) or DEFAULT_URL
    try:
        parts = urlsplit(url)
    except ValueError:
        raise StoreUrlError(f"store URL {shown(url)!r} cannot be read", hint=ACCEPTED) from None
    match parts.scheme:
        case "memory":
            return open_memory(parts, options, namespace=namespace, clock=clock)
        case "sqlite":
            return open_sqlite(parts, options, namespace=namespace, clock=clock)
        case scheme if scheme in REDIS_SCHEMES:
            raise StoreUrlError(
                f"store URL {shown(url)!r}: this release has no Redis store yet", hint=ACCEPTED
            )
        case _:
            raise StoreUrlError(f"store URL {shown(url)!r} is not understood", hint=ACCEPTED)


def open_memory(
    parts: SplitResult, options: dict[str, str], *, namespace: str, clock: Clock | None
) -> Store:
    """Open a fresh store in memory."""
    read_options(parts, options, known=frozenset())
    if parts.netloc or parts.path:
        raise StoreUrlError("a memory store has no name or path", hint="Use 'memory://'")
    return MemoryStore(namespace=namespace, clock=clock)


def open_sqlite(
    parts: SplitResult, options: dict[str, str], *, namespace: str, clock: Clock | None
) -> Store:
    """Open a store file."""
    # Imported here: a program that uses another store does not load SQLite.
    from pyrula_core.stores.sqlite import SqliteStore

    chosen = read_options(parts, options, known=SQLITE_OPTIONS)
    path = unquote(parts.path)[1:]
    if parts.netloc or not path or path.startswith(":memory:") or "\0" in path:
        raise StoreUrlError(f"store URL {shown(parts.geturl())!r} names no file", hint=ACCEPTED)
    durability = read_durability(chosen.get("durability", Durability.MACHINE.value))
    return SqliteStore(path, namespace=namespace, clock=clock, durability=durability)


def read_durability(value: str) -> Durability:
    """Return the durability an option names."""
    if value not in (Durability.MACHINE.value, Durability.PROCESS.value):
        raise StoreUrlError(
            f"durability={value!r} is not a level of SQLite", hint="Use 'machine' or 'process'"
        )
    return Durability(value)


def read_options(
    parts: SplitResult, options: dict[str, str], *, known: frozenset[str]
) -> dict[str, str]:
    """Return the options of a URL's query and of the call; the call's win."""
    found = dict(parse_qsl(parts.query, keep_blank_values=True)) | options
    unknown = sorted(found.keys() - known)
    if unknown or parts.fragment:
        takes = ", ".join(sorted(known)) or "none"
        raise StoreUrlError(
            f"a {parts.scheme} store has no option {', '.join(unknown) or 'after #'}",
            hint=f"Options it takes: {takes}",
        )
    return found


def shown(url: str) -> str:
    """Return a URL as an error may show it: without what stands before an ``@``."""
    scheme, mark, rest = url.partition("://")
    return f"{scheme}{mark}{rest.rpartition('@')[2]}" if mark else url.rpartition("@")[2]
