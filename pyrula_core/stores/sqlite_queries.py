"""Reads the store's SQL from its own files.

Owns the names of the statements: one that the file lacks, or that nobody uses, fails at import.
Must never put SQL together from values.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from importlib import resources
from typing import Final

__all__ = ["SCHEMA", "SEQ_SPAN", "SQL", "Statements", "read_statements"]

NAME: Final = re.compile(r"^-- name: (\w+)$", re.MULTILINE)
COMMENT: Final = re.compile(r"^--.*$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Statements:
    """The statements of ``sqlite_queries.sql`` by their names there."""

    find_namespace: str
    add_namespace: str
    epoch_floor: str
    raise_epoch_floor: str
    find_run: str
    find_standing: str
    open_in_partition: str
    find_idempotent: str
    next_ready: str
    add_run: str
    update_run: str
    renew_run: str
    delete_run: str
    list_runs: str
    list_by_name: str
    list_by_statuses: str
    list_by_error_code: str
    list_by_created_after: str
    list_by_created_before: str
    list_by_partition: str
    list_by_parent: str
    list_by_cursor: str
    list_order: str
    add_event: str
    add_event_if_ordinary: str
    events: str
    delete_events: str
    find_guard: str
    add_guard: str
    delete_guards: str
    find_partition: str
    add_partition: str
    partitions: str
    find_record: str
    put_record: str
    delete_record: str
    delete_records: str
    scan_records: str
    scan_records_reverse: str


def read_statements(text: str) -> dict[str, str]:
    """Return the statements of an annotated file by name, without their comments."""
    parts = NAME.split(text)
    return {
        name: COMMENT.sub("", body).strip()
        for name, body in zip(parts[1::2], parts[2::2], strict=True)
    }


def read_file(name: str) -> str:
    """Return a file that is shipped beside this module."""
    return resources.files("pyrula_core.stores").joinpath(name).read_text("utf-8")


SCHEMA: Final = read_file("sqlite_schema.sql")
SQL: Final = Statements(**read_statements(read_file("sqlite_queries.sql")))

# Event ids: run.pk * SEQ_SPAN + seq.
SEQ_SPAN: Final = 2**24
