"""Exceptions of real libraries: recorded, written as JSON, and raised again by a replay."""

from __future__ import annotations

import asyncio
import concurrent.futures
import json
import socket
import sqlite3
import ssl
import subprocess
import urllib.error
import zlib
from typing import Any

import pydantic
import pytest

from pyrula_core.errors import RecordedError
from pyrula_core.failure import FailureRecord
from pyrula_core.rebuild import live, rebuild


class Order(pydantic.BaseModel):
    amount: int


def replayed(exc: BaseException) -> tuple[FailureRecord, BaseException]:
    """The exception a replay raises, after comparing it with what the live body sees."""
    record, seen = live(exc)
    again = rebuild(FailureRecord.from_json(json.loads(json.dumps(record.to_json()))))
    assert type(again) is type(seen)
    assert str(again) == str(seen) == str(exc)
    assert again.args == seen.args
    assert vars(again) == vars(seen)
    return record, again


def provoked(function: Any, *args: Any) -> BaseException:
    try:
        function(*args)
    except Exception as error:
        return error
    raise AssertionError("nothing was raised")


def same(exc: BaseException) -> BaseException:
    """The replayed exception, which must be of the very class and hold the same attributes."""
    record, again = replayed(exc)
    assert record.rebuildable, record.reason
    assert type(again) is type(exc)
    assert vars(again) == vars(exc)
    return again


def stand_in(exc: BaseException) -> BaseException:
    """The replayed stand-in, which must be caught by the original class, unless an OSError."""
    record, again = replayed(exc)
    assert not record.rebuildable
    assert isinstance(again, RecordedError)
    assert isinstance(again, type(exc)) is not isinstance(exc, OSError)
    assert again.type_path == f"{type(exc).__module__}:{type(exc).__qualname__}"
    return again


# --- the standard library -------------------------------------------------------------------------


def test_sqlite3_errors_keep_their_code():
    error = provoked(sqlite3.connect(":memory:").execute, "selec")
    assert same(error).sqlite_errorname == "SQLITE_ERROR"


def test_sqlite3_locked_is_rebuilt():
    assert str(same(sqlite3.OperationalError("database is locked"))) == "database is locked"


def test_report_73_a_json_decode_error_keeps_document_position_and_notes():
    error = provoked(json.loads, '{"a": }')
    error.add_note("from the model")
    again = same(error)
    assert (again.doc, again.pos, again.lineno) == ('{"a": }', 6, 1)
    assert again.__notes__ == ["from the model"]


async def test_the_timeout_of_asyncio_is_rebuilt_as_TimeoutError():
    with pytest.raises(TimeoutError) as caught:
        async with asyncio.timeout(0):
            await asyncio.Event().wait()
    assert type(same(caught.value)) is TimeoutError


@pytest.mark.parametrize(
    "exc",
    [
        asyncio.IncompleteReadError(b"part", 10),
        asyncio.LimitOverrunError("too long", 5),
        asyncio.InvalidStateError("done"),
        concurrent.futures.BrokenExecutor("gone"),
        ssl.SSLError(1, "[SSL: WRONG_VERSION_NUMBER] wrong version number"),
        ssl.SSLCertVerificationError(1, "certificate verify failed"),
        socket.gaierror(-2, "Name or service not known"),
        subprocess.CalledProcessError(2, ["ls", "x"], b"out", b"err"),
        subprocess.TimeoutExpired("sleep", 1.5),
        urllib.error.URLError("no host"),
        zlib.error("bad header"),
    ],
    ids=lambda e: type(e).__name__,
)
def test_errors_of_the_standard_library_are_rebuilt(exc):
    same(exc)


def test_a_real_ssl_error_keeps_reason_and_library():
    context = ssl.create_default_context()
    error = provoked(context.load_verify_locations, None, None, "no certificate")
    again = same(error)
    assert again.reason == error.reason


# --- pydantic -------------------------------------------------------------------------------------


def test_report_73_a_pydantic_validation_error_gives_a_plain_stand_in():
    error = provoked(Order.model_validate, {"amount": "x"})
    record, again = replayed(error)
    assert type(again) is RecordedError
    assert again.type_path == "pydantic_core._pydantic_core:ValidationError"
    assert "Input should be a valid integer" in again.message
    assert "builtins:ValueError" in record.class_chain


# --- httpx and requests ---------------------------------------------------------------------------


def test_report_73_httpx_status_error_gives_a_stand_in_that_its_class_catches():
    httpx = pytest.importorskip("httpx")
    request = httpx.Request("GET", "http://service.test/")
    error = provoked(httpx.Response(503, request=request).raise_for_status)
    again = stand_in(error)
    assert isinstance(again, httpx.HTTPError)
    assert "503 Service Unavailable" in str(again)
    assert not hasattr(again, "response")
    assert not hasattr(again, "request")


@pytest.mark.parametrize("name", ["ConnectError", "ReadTimeout", "PoolTimeout", "InvalidURL"])
def test_httpx_transport_errors_are_rebuilt(name):
    httpx = pytest.importorskip("httpx")
    same(getattr(httpx, name)("no route"))


def test_httpx_errors_that_hold_their_request_give_a_stand_in():
    httpx = pytest.importorskip("httpx")
    request = httpx.Request("GET", "http://service.test/")
    assert isinstance(stand_in(httpx.ReadTimeout("slow", request=request)), httpx.TimeoutException)


def test_requests_errors_are_os_errors_so_their_stand_in_is_plain():
    requests = pytest.importorskip("requests")
    same(requests.ConnectionError("no route"))
    same(requests.Timeout("slow"))
    response = requests.Response()
    response.status_code = 404
    again = stand_in(provoked(response.raise_for_status))
    assert type(again) is RecordedError
    assert "404 Client Error" in str(again)


# --- model providers ------------------------------------------------------------------------------


@pytest.mark.parametrize("package", ["openai", "anthropic"])
@pytest.mark.parametrize("name", ["RateLimitError", "InternalServerError", "BadRequestError"])
def test_report_73_status_errors_of_model_providers_give_a_stand_in(package, name):
    provider = pytest.importorskip(package)
    httpx = pytest.importorskip("httpx")
    request = httpx.Request("POST", "http://model.test/")
    response = httpx.Response(429, request=request)
    error = getattr(provider, name)("slow down", response=response, body={"code": "rate"})
    again = stand_in(error)
    assert isinstance(again, provider.APIStatusError)
    assert str(again) == "slow down"


@pytest.mark.parametrize("package", ["openai", "anthropic"])
@pytest.mark.parametrize("name", ["APIConnectionError", "APITimeoutError"])
def test_report_73_connection_errors_of_model_providers_give_a_stand_in(package, name):
    provider = pytest.importorskip(package)
    httpx = pytest.importorskip("httpx")
    error = getattr(provider, name)(request=httpx.Request("POST", "http://model.test/"))
    error.__cause__ = httpx.ConnectError("refused")
    again = stand_in(error)
    assert isinstance(again, provider.APIConnectionError)
    assert isinstance(again.__cause__, httpx.ConnectError)


# --- LangGraph ------------------------------------------------------------------------------------


def test_report_73_langgraphs_own_errors_are_rebuilt():
    errors = pytest.importorskip("langgraph.errors")
    timeout = errors.NodeTimeoutError("search", 1.5, kind="run", run_timeout=1.0)
    assert same(timeout).run_timeout == 1.0
    unknown = errors.UnknownInterruptError("which?", reason="not_pending", interrupt_ids=["a"])
    assert same(unknown).interrupt_ids == ("a",)
    assert same(errors.NodeCancelledError("search")).node == "search"
    same(errors.GraphRecursionError("limit of 25 reached"))
    same(errors.InvalidUpdateError("twice"))


def test_report_73_a_group_that_holds_a_status_error_gives_a_stand_in():
    httpx = pytest.importorskip("httpx")
    request = httpx.Request("GET", "http://service.test/")
    status = provoked(httpx.Response(500, request=request).raise_for_status)
    again = stand_in(ExceptionGroup("fan-out", [status, ValueError("x")]))
    matching, _ = again.split(httpx.HTTPStatusError)
    assert len(matching.exceptions) == 1
