from __future__ import annotations

import random
from typing import Any

from langchain_core.messages import AIMessage, HumanMessage
from pydantic import BaseModel

WORDS = [f"word-{place}-" + "x" * (place * 7 % 90) for place in range(40)]


def message(rng: random.Random, id_: str) -> Any:
    words = " ".join(rng.choices(WORDS, k=3))
    if rng.random() < 0.5:
        return HumanMessage(words, id=id_)
    calls = [{"name": "f", "args": {"at": (1, 2)} if rng.random() < 0.2 else {}, "id": id_}]
    return AIMessage(words, id=id_, tool_calls=calls)


def exact(value: Any) -> Any:
    """Return a form in which 1, True and 1.0 differ, and so does the order of keys."""
    if isinstance(value, dict):
        return [(exact(key), exact(item)) for key, item in value.items()]
    if isinstance(value, (list, tuple)):
        return (type(value), *map(exact, value))
    if isinstance(value, BaseModel):
        return type(value), exact(vars(value))
    return type(value), value
