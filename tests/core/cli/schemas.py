"""The documents that ``--json`` prints: every key and its type. Keys may be added."""

from __future__ import annotations

from typing import Any

TEXT_OR_NULL = (str, type(None))

ROW = {
    "name": str,
    "run_id": str,
    "kind": str,
    "status": str,
    "version": str,
    "seq": int,
    "thread": TEXT_OR_NULL,
    "parent": TEXT_OR_NULL,
    "owner": TEXT_OR_NULL,
    "owner_alive": (bool, type(None)),
    "created_at": float,
    "updated_at": float,
    "wake_at": (float, type(None)),
    "pause_requested": bool,
    "cancel_requested": bool,
    "error_code": TEXT_OR_NULL,
    "user_code": TEXT_OR_NULL,
}
RUN = ROW | {
    "attempts": int,
    "steps": int,
    "requeues": dict,
    "continued_to": TEXT_OR_NULL,
    "error": (dict, type(None)),
    "interrupts": list,
}
ERROR = {
    "code": str,
    "message": str,
    "error_type": str,
    "user_code": TEXT_OR_NULL,
    "detail": dict,
    "traceback": TEXT_OR_NULL,
}
INTERRUPT = {
    "id": str,
    "node": TEXT_OR_NULL,
    "key": str,
    "opened_at": float,
    "response_schema": (dict, type(None)),
    "question": (dict, type(None)),
}
EVENT = {
    "seq": int,
    "at": float,
    "type": str,
    "key": TEXT_OR_NULL,
    "note": str,
    "fields": dict,
    "value": (dict, type(None)),
}


def check_schema(document: dict[str, Any], schema: dict[str, Any]) -> None:
    """Exactly these keys, in this order, each of its type."""
    assert list(document) == list(schema)
    wrong = {key: document[key] for key in schema if not isinstance(document[key], schema[key])}
    assert not wrong
