"""The extension codes of encoded values; stored for ever, so never renumbered.

Owns nothing else.
"""

from __future__ import annotations

from typing import Final

__all__ = ["FORMAT_VERSION", "Code", "depth_max"]

FORMAT_VERSION: Final = 1
depth_max: Final = 100


class Code:
    """What the bytes of a msgpack extension are; plain ints, for they are passed all the time."""

    INT: Final = 1
    TEXT: Final = 2
    MAP: Final = 3
    SET: Final = 4
    FROZENSET: Final = 5
    SIMPLE: Final = 6
    DEFAULTDICT: Final = 7
    MODEL: Final = 8
    DATACLASS: Final = 9
    NAMEDTUPLE: Final = 10
    ENUM: Final = 11
    BASED: Final = 12
    CLASS: Final = 13
    EXCEPTION: Final = 14
    ARRAY: Final = 15
    SCALAR: Final = 16
