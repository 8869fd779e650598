"""How numpy's arrays and scalars are recorded, in a process that has loaded numpy.

Owns their form: the data type's description, the shape, the order and the raw bytes. Must never
import numpy: who has no numpy pays nothing, and a stored value cannot cause an import.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

from pyrula_core.errors import NotRegisteredError
from pyrula_langgraph.serde_types import Refusal, type_path_of
from pyrula_langgraph.serde_wire import Code

__all__ = ["array", "encoding", "scalar"]


def encoding(kind: type[Any]) -> Callable[[Any, Any], tuple[int, Any]] | None:
    """Return how values of a numpy class are encoded, or None for every other class."""
    numpy: Any = sys.modules.get("numpy")
    if numpy is None or not isinstance(getattr(numpy, "ndarray", None), type):
        return None
    if kind is numpy.ndarray:
        return encode_array
    return encode_scalar if issubclass(kind, numpy.generic) else None


def describe(dtype: Any, kind: type[Any]) -> Any:
    """Return the description of a data type; raises Refusal for one that holds objects."""
    if dtype.hasobject:
        raise Refusal("it holds Python objects, not numbers: use a list", type_path_of(kind))
    return dtype.str if dtype.names is None else listed(dtype.descr)


def listed(description: Any) -> Any:
    """Return a description with lists for its tuples."""
    if isinstance(description, (list, tuple)):
        return [listed(part) for part in description]
    return description


def encode_array(value: Any, via: Any) -> tuple[int, Any]:
    order = "F" if value.flags.f_contiguous and not value.flags.c_contiguous else "C"
    dtype = describe(value.dtype, type(value))
    return Code.ARRAY, [via.sub(dtype), list(value.shape), order, value.tobytes(order)]


def encode_scalar(value: Any, via: Any) -> tuple[int, Any]:
    return Code.SCALAR, [via.sub(describe(value.dtype, type(value))), value.tobytes()]


def dtype_of(numpy: Any, description: Any) -> Any:
    """Return the data type of its description."""
    dtype = numpy.dtype(description if isinstance(description, str) else fields_of(description))
    if dtype.hasobject:
        raise ValueError("an array of objects cannot be read")
    return dtype


def fields_of(description: Any) -> list[Any]:
    """Return a structured description with tuples where numpy wants them."""
    fields = []
    for name, kind, *shape in description:
        inner = kind if isinstance(kind, str) else fields_of(kind)
        fields.append((tuple(name) if isinstance(name, list) else name, inner, *map(tuple, shape)))
    return fields


def loaded() -> Any:
    """Return numpy; raises NotRegisteredError when this process has not loaded it."""
    numpy = sys.modules.get("numpy")
    if numpy is None:
        raise NotRegisteredError(
            "a recorded value is a numpy array, and numpy is not loaded in this process",
            hint="Import numpy before reading",
        )
    return numpy


def array(record: Any) -> Any:
    """Return the array of its record: its own memory, writeable, in the recorded order."""
    numpy = loaded()
    dtype, shape, order, raw = record
    flat = numpy.frombuffer(bytearray(raw), dtype=dtype_of(numpy, dtype))
    return flat.reshape(tuple(shape), order=order)


def scalar(record: Any) -> Any:
    """Return the scalar of its record."""
    numpy = loaded()
    dtype, raw = record
    return numpy.frombuffer(raw, dtype=dtype_of(numpy, dtype))[0]
