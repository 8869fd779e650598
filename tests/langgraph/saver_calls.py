from __future__ import annotations

from typing import Any

from langgraph.checkpoint.base import empty_checkpoint
from langgraph.checkpoint.base.id import uuid6

from pyrula_langgraph.saver import JournalSaver


class Cipher:
    """Hides bytes well enough for a test, differently every time."""

    def __init__(self) -> None:
        self.count = 0

    def encrypt(self, plaintext: bytes) -> tuple[str, bytes]:
        self.count = (self.count + 1) % 200
        mask = self.count + 1
        return "xor", bytes((mask,)) + bytes(byte ^ mask for byte in plaintext)

    def decrypt(self, name: str, ciphertext: bytes) -> bytes:
        assert name == "xor"
        return bytes(byte ^ ciphertext[0] for byte in ciphertext[1:])


def where(thread: str = "t", checkpoint_id: str | None = None, ns: str = "") -> Any:
    return {
        "configurable": {
            "thread_id": thread,
            "checkpoint_ns": ns,
            "checkpoint_id": checkpoint_id,
        }
    }


def put(saver: JournalSaver, parent: Any, version: int = 1, **values: Any) -> Any:
    metadata: Any = {"step": version, "source": "loop", "parents": {}}
    if "run_id" in values:
        metadata["run_id"] = values.pop("run_id")
    versions = dict.fromkeys(values, version)
    checkpoint: Any = {**empty_checkpoint(), "id": str(uuid6()), "channel_values": values}
    return saver.put(parent, {**checkpoint, "channel_versions": versions}, metadata, versions)


def values_of(saver: JournalSaver, config: Any) -> dict[str, Any]:
    found = saver.get_tuple(config)
    assert found is not None
    return found.checkpoint["channel_values"]


def writes_of(saver: JournalSaver, config: Any) -> list[Any]:
    found = saver.get_tuple(config)
    assert found is not None
    return list(found.pending_writes or ())
