"""The codes that users put on their own failures."""

from __future__ import annotations

import re

__all__ = ["check_user_code"]

USER_CODE_PATTERN = re.compile(r"[A-Za-z0-9_.:\-]{1,64}")


def check_user_code(code: str | None) -> str | None:
    """Return ``code`` unchanged, or raise ValueError when it is not a legal user code.

    A user code is 1 to 64 of letters, digits and ``_ . : -``; it is stored and shown at every
    capture level, so it must not be able to carry anything else.
    """
    if code is None:
        return None
    if type(code) is not str or not USER_CODE_PATTERN.fullmatch(code):
        raise ValueError(
            f"code={code!r} is not a legal code: use 1 to 64 of letters, digits and '_ . : -'"
        )
    return code
