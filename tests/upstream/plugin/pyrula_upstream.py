"""A pytest plugin for foreign suites: puts Pyrula under their graphs, and records what they say.

Runs in the suite's own process, where ``tests`` is the suite's package and not this repository's.
PYRULA_UPSTREAM_MODE says what is put under the tests, PYRULA_UPSTREAM_RESULTS where the outcomes
go.
"""

from __future__ import annotations

import contextlib
import functools
import json
import os
import sys
import tempfile
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.checkpoint.serde.encrypted import EncryptedSerializer
from langgraph.func import entrypoint
from langgraph.graph import StateGraph

from pyrula_langgraph.saver import JournalSaver
from pyrula_langgraph.serde import GraphSerde
from pyrula_langgraph.testing import wrap_nodes

message_chars_max = 200

MODE = os.environ["PYRULA_UPSTREAM_MODE"]
RESULTS = os.environ["PYRULA_UPSTREAM_RESULTS"]

OUTCOMES: dict[str, dict[str, str]] = {}


# --- what is recorded -----------------------------------------------------------------------------


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Keep the worst of a test's setup, call and teardown."""
    known = OUTCOMES.get(report.nodeid)
    if known is not None and (report.outcome == "passed" or known["outcome"] == "failed"):
        return
    OUTCOMES[report.nodeid] = {"outcome": report.outcome, "message": first_line(report)}


def pytest_collectreport(report: pytest.CollectReport) -> None:
    """Keep a module that cannot be imported, or is skipped as a whole, as if it were a test."""
    if report.outcome != "passed":
        OUTCOMES[report.nodeid] = {"outcome": report.outcome, "message": first_line(report)}


def first_line(report: Any) -> str:
    """Return what a failure says, in one line."""
    if not report.failed:
        return ""
    crash = getattr(report.longrepr, "reprcrash", None)
    if crash is None:
        return str(report.longrepr).strip().splitlines()[-1][:message_chars_max]
    place = f"{Path(crash.path).name}:{crash.lineno}"
    return f"{place}: {' '.join(crash.message.split())}"[:message_chars_max]


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Write the outcomes; workers leave that to the process that started them."""
    if not hasattr(session.config, "workerinput"):
        Path(RESULTS).write_text(json.dumps(OUTCOMES), "utf-8")


# --- every graph wrapped --------------------------------------------------------------------------


def wrapping(build: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function that wraps the graph which ``build`` returns."""

    @functools.wraps(build)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        return wrap_nodes(build(*args, **kwargs))

    return wrapped


if MODE == "wrapped":
    StateGraph.compile = wrapping(StateGraph.compile)  # type: ignore[method-assign]
    entrypoint.__call__ = wrapping(entrypoint.__call__)  # type: ignore[method-assign]


# --- JournalSaver as the checkpointer -------------------------------------------------------------


class JournalInMemory(JournalSaver):
    """Stands where a test says InMemorySaver."""

    def __init__(self, *, serde: Any = None, **kwargs: Any) -> None:
        super().__init__("memory://", serde=serde)


@contextlib.contextmanager
def in_memory() -> Iterator[JournalSaver]:
    """Yield a saver on a store in memory."""
    saver = JournalInMemory()
    yield saver
    saver.close()


@contextlib.contextmanager
def in_file(serde: Any = None) -> Iterator[JournalSaver]:
    """Yield a saver on a store in a file."""
    with tempfile.TemporaryDirectory() as folder:
        saver = JournalSaver(f"sqlite:///{folder}/store.db", serde=serde)
        yield saver
        saver.close()


@contextlib.contextmanager
def encrypted() -> Iterator[JournalSaver]:
    """Yield a saver on a store in a file that sees only what is encrypted."""
    cipher = EncryptedSerializer.from_pycryptodome_aes(serde=GraphSerde(), key=b"1234567890123456")
    with in_file(cipher) as saver:
        yield saver


@contextlib.asynccontextmanager
async def in_file_async() -> AsyncIterator[JournalSaver]:
    """Yield a saver on a store in a file."""
    with in_file() as saver:
        yield saver


STAND_INS = {
    "_checkpointer_memory": in_memory,
    "_checkpointer_sqlite": in_file,
    "_checkpointer_sqlite_aes": encrypted,
    "_checkpointer_sqlite_aio": in_file_async,
}


@pytest.hookimpl(trylast=True)
def pytest_collection_finish() -> None:
    """Put JournalSaver behind every name that the suite's modules use for a checkpointer.

    They look it up when a test runs; a class that derives from InMemorySaver is left alone.
    """
    if MODE != "saver":
        return
    for name, module in list(sys.modules.items()):
        if name.partition(".")[0] != "tests":
            continue
        for attribute, value in list(vars(module).items()):
            if attribute in STAND_INS:
                setattr(module, attribute, STAND_INS[attribute])
            elif value is InMemorySaver:
                setattr(module, attribute, JournalInMemory)
