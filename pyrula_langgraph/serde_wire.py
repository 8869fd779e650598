"""The extension codes of encoded values; stored for ever, so never renumbered.

Owns nothing else.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Final

__all__ = ["FORMAT_VERSION", "Code", "depth_max"]

FORMAT_VERSION: Final = 1
depth_max: Final = 100


class Code(IntEnum):
    """What the bytes of a msgpack extension are."""

    INT = 1
    TEXT = 2
    MAP = 3
    SET = 4
    FROZENSET = 5
    SIMPLE = 6
    DEFAULTDICT = 7
    MODEL = 8
    DATACLASS = 9
    NAMEDTUPLE = 10
    ENUM = 11
    BASED = 12
    CLASS = 13
    EXCEPTION = 14
    ARRAY = 15
    SCALAR = 16
