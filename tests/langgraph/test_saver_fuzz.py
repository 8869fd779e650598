from __future__ import annotations

import random
from copy import deepcopy
from typing import Any

import pytest
from langgraph.checkpoint.base import empty_checkpoint
from langgraph.checkpoint.base.id import uuid6

from pyrula_langgraph import evolve, node_wire, saver_plan
from pyrula_langgraph.saver import JournalSaver
from tests.langgraph.saver_values import WORDS, exact, message


class Bench:
    """Puts random checkpoints straight into a saver, remembering what each must read back as."""

    def __init__(self, saver: JournalSaver, seed: int) -> None:
        self.saver = saver
        self.rng = random.Random(seed)
        self.expected: dict[str, tuple[dict[str, Any], str | None]] = {}
        self.live: dict[str, tuple[dict[str, Any], dict[str, int]]] = {}

    def step(self) -> None:
        """Put a child of the newest checkpoint, or now and then of an older one."""
        parent = max(self.expected, default=None)
        if parent is not None and self.rng.random() < 0.1:
            parent = self.rng.choice(list(self.expected))
        values, versions = self.taken(parent)
        new_versions = {}
        # update_state(as_node="__copy__") puts a copy beside its original, with no new version.
        is_copy = parent is not None and self.rng.random() < 0.1
        if is_copy:
            parent = self.expected[parent][1]
        for name in ("items", "words", "text", "book", "tree", "gone"):
            if not is_copy and self.rng.random() < 0.6:
                self.change(name, values)
                new_versions[name] = versions[name] = versions.get(name, 0) + 1
        if parent is not None:
            # What a task writes and what the channel then holds need not be the same.
            other = {**values, "text": values.get("text", "") + "other" * self.rng.randint(0, 99)}
            written = [(name, other.get(name)) for name in new_versions]
            where = config_at(parent)
            self.saver.put_writes(where, written, f"task-{self.rng.random()}", "path")
        checkpoint = {**empty_checkpoint(), "id": str(uuid6()), "channel_values": values.copy()}
        checkpoint["channel_versions"] = versions
        self.saver.put(config_at(parent), checkpoint, {"step": len(self.expected)}, new_versions)
        self.expected[checkpoint["id"]] = (deepcopy(values), parent)
        self.live = {checkpoint["id"]: (values, versions)}

    def taken(self, parent: str | None) -> tuple[dict[str, Any], dict[str, int]]:
        """Return the values of a checkpoint: the live ones, or, as a fork does, read back."""
        if parent is None:
            return {}, {}
        if parent in self.live and self.rng.random() < 0.9:
            return self.live[parent]
        found = self.saver.get_tuple(config_at(parent))
        assert found is not None
        return found.checkpoint["channel_values"], dict(found.checkpoint["channel_versions"])

    def change(self, name: str, values: dict[str, Any]) -> None:
        rng = self.rng
        if name == "items":
            values[name] = self.changed_items(values.get(name, []))
        elif name == "words":
            more = [rng.choice([1, True, 1.0, None, "w", 2**70]) for _ in range(rng.randint(0, 40))]
            values[name] = (values.get(name, []) + more)[-300:]
        elif name == "text":
            values[name] = values.get(name, "") * (rng.random() < 0.95) + rng.choice(WORDS) * 9
        elif name == "book":
            values[name] = self.changed_book(values.get(name, {}))
        elif name == "tree":
            old = values.get(name, {})
            notes = self.changed_items(old.get("notes", []))
            values[name] = {"notes": notes, "n": {"text": "y" * 600, "k": rng.random()}}
        elif rng.random() < 0.5:
            values.pop(name, None)
        else:
            values[name] = (1, {2}, b"3")

    def changed_items(self, old: list[Any]) -> list[Any]:
        rng = self.rng
        new = list(old)
        if new and rng.random() < 0.3:
            rng.choice(new[-20:]).additional_kwargs["in place"] = [rng.random()]
        if new and rng.random() < 0.3:
            del new[rng.randrange(len(new))]
        if new and rng.random() < 0.1:
            rng.shuffle(new)
        new += [message(rng, str(rng.random())) for _ in range(rng.choice([0, 1, 1, 2, 30]))]
        return new[-rng.choice([10, 200, 200]) :]

    def changed_book(self, old: dict[str, Any]) -> dict[str, Any]:
        rng = self.rng
        new = dict(old)
        for _ in range(rng.randint(0, 4)):
            new[f"key-{rng.randint(0, 90)}"] = rng.choice([*WORDS, [WORDS], {"a": 1}, ("t",)])
        if new and rng.random() < 0.3:
            del new[rng.choice(list(new))]
        items = list(new.items())
        if rng.random() < 0.1:
            rng.shuffle(items)
        return dict(items)

    def check(self) -> None:
        listed = {t.checkpoint["id"]: t for t in self.saver.list(config_at(None))}
        assert list(listed) == sorted(self.expected, reverse=True)
        for id_, (values, parent) in self.expected.items():
            for found in (listed[id_], self.saver.get_tuple(config_at(id_))):
                assert found is not None
                assert by_name(found.checkpoint["channel_values"]) == by_name(values)
                above = found.parent_config and found.parent_config["configurable"]["checkpoint_id"]
                assert above == parent


def by_name(values: dict[str, Any]) -> Any:
    return exact({name: values[name] for name in sorted(values)})


def config_at(checkpoint_id: str | None) -> Any:
    where = {"thread_id": "t", "checkpoint_ns": "", "checkpoint_id": checkpoint_id}
    return {"configurable": where}


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("small", [True, False], ids=["small limits", "real limits"])
def test_every_checkpoint_reads_back_as_it_was_put(seed, small, tmp_path, monkeypatch):
    if small:
        monkeypatch.setattr(saver_plan, "depth_max", 5)
        for module in (node_wire, evolve):
            monkeypatch.setattr(module, "chunk_items", 4)
    saver = JournalSaver(f"sqlite:///{tmp_path}/s.db")
    bench = Bench(saver, seed)
    for place in range(90):
        bench.step()
        if place % 30 == 29:
            bench.check()
            saver.close()
            saver = bench.saver = JournalSaver(f"sqlite:///{tmp_path}/s.db")
            bench.live = {}
    bench.check()
    saver.prune(["t"])
    newest = max(bench.expected)
    found = saver.get_tuple(config_at(None))
    assert found is not None
    assert by_name(found.checkpoint["channel_values"]) == by_name(bench.expected[newest][0])
    saver.close()
