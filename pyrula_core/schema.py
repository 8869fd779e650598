"""Checks answers against the JSON schema their question came with."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pyrula_core.errors import InvalidAnswerError

__all__ = ["check_answer"]


def check_answer(value: Any, schema: Mapping[str, Any] | None, question: str) -> None:
    """Raise InvalidAnswerError when ``value`` does not fit ``schema``; None fits everything."""
    if schema is None:
        return
    # Imported here: most runs ask without a schema, and the library is slow to import.
    from jsonschema import Draft202012Validator
    from jsonschema.exceptions import best_match

    error = best_match(Draft202012Validator(dict(schema)).iter_errors(value))
    if error is not None:
        raise InvalidAnswerError(
            f"the answer to question {question!r} does not fit at {error.json_path}: "
            f"{error.message}",
            hint="The question stays open; answer again with a value that fits its response_schema",
        )
