"""One event of every type, as the golden frames hold them."""

from __future__ import annotations

from pyrula_core.events import REQUIRED, Event, EventType, Payload
from pyrula_core.model import RunKey

KEY = RunKey("orders", "run-1")
SAMPLES: dict[object, object] = {
    str: "pull#0",
    int: 2,
    dict: {"type": "builtins:ValueError", "message": "nö"},
    (int, float): 1_700_000_000.25,
}


def golden_events() -> list[Event]:
    """Every type of event, with what it must carry and a payload on every second one."""
    return [
        Event(
            type=kind,
            data={name: SAMPLES[expected] for name, expected in REQUIRED[kind].items()},
            payload=Payload("json/1", b'{"total":42}') if seq % 2 else None,
            at=1_700_000_000.0 + seq / 8,
            seq=seq,
        )
        for seq, kind in enumerate(EventType, start=1)
    ]
