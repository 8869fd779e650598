"""One stretch of a graph's run: from a claim to its end or its next suspension.

Owns what the nodes, the saver and the driver share meanwhile: the attempt, structural keys, attempt
counts, what was raised where. Touched from many threads; every method is short and safe to call
from any of them. Must never run user code.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any

from langgraph.runtime import RunControl

from pyrula_core.adapter import Attempt, NodeRun, RunState, SubstepRecords
from pyrula_core.errors import StoreError
from pyrula_core.events import Event
from pyrula_langgraph._compat import (
    CHECKPOINT_NS,
    HANDLER_PATH,
    NS_END,
    NS_SEPARATOR,
    PUSH_PATH,
    TASK_ID,
)
from pyrula_langgraph.controls import CancelRun, PauseRun, RunStopped, StandDown
from pyrula_langgraph.retrying import edited_steps, first_step

__all__ = ["FRAME", "LEG", "Frame", "Leg"]


@dataclass(slots=True)
class Frame:
    """A node that is running, inside the node ``outer`` where it is nested.

    ``stopped`` is the control that was raised inside it, or inside what it called.
    """

    key: str
    task_id: str
    run: NodeRun
    outer: Frame | None = None
    stopped: RunStopped | None = None


FRAME: ContextVar[Frame | None] = ContextVar("pyrula_frame", default=None)
LEG: ContextVar[Leg | None] = ContextVar("pyrula_leg", default=None)


@dataclass(slots=True)
class Leg:
    """What is known of a run while a graph executes it.

    ``base_step`` is the number of the run's first superstep on its thread: structural keys count
    from there, so that they do not depend on how many turns came before. ``asked`` holds the ids
    of open questions: one that a nested graph asks reaches every graph around it.
    """

    attempt: Attempt
    origin: str
    records: SubstepRecords
    number: int
    base_step: int | None = None
    control: RunControl = field(default_factory=RunControl)
    errors: list[tuple[str, BaseException]] = field(default_factory=list)
    started: dict[str, int] = field(default_factory=dict)
    asked: set[str] = field(default_factory=set)
    _keys: dict[str, str] = field(default_factory=dict)
    _frames: dict[str, Frame] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    @classmethod
    def of(cls, attempt: Attempt, history: Sequence[Event], state: RunState) -> Leg:
        """Return the leg that follows a run's history."""
        base = first_step(history)
        return cls(
            attempt=attempt,
            origin=history[0].data.get("origin", attempt.key.run_id),
            records=SubstepRecords(history),
            number=state.attempts,
            base_step=None if base is None else base + edited_steps(history),
            asked={question.id for question in state.open_questions},
        )

    # --- controls -------------------------------------------------------------------------------

    def check(self) -> None:
        """Raise the control that is in force: nothing new starts after it."""
        stopped: RunStopped | None = None
        try:
            self.attempt.check_held()
        except StoreError as error:
            stopped = StandDown(error.code)
        if stopped is None and self.attempt.controls.cancel:
            stopped = CancelRun()
        if stopped is None and (self.attempt.controls.pause or self.attempt.draining):
            stopped = PauseRun()
        if stopped is None:
            return
        frame = FRAME.get()
        while frame is not None:
            frame.stopped = frame.stopped or stopped
            frame = frame.outer
        self.control.request_drain(type(stopped).__name__)
        raise stopped

    def obey(self) -> None:
        """Let the graph stop at its next superstep when a control is in force."""
        controls = self.attempt.controls
        stopping = self.attempt.draining or self.attempt.failure is not None
        if controls.cancel or controls.pause or stopping:
            self.control.request_drain("stopped")

    # --- keys -----------------------------------------------------------------------------------

    def enter(self, config: Mapping[str, Any]) -> Frame:
        """Return the frame of the node that is about to run under ``config``."""
        task_id = str(config["configurable"].get(TASK_ID, ""))
        key = self.key_of(config)
        with self._lock:
            self._keys[task_id] = key
            count = self.started[key] = self.started.get(key, 0) + 1
            run = NodeRun(self.attempt, self.records, key=key, origin=self.origin, number=count)
            frame = Frame(key, task_id, run, FRAME.get())
            self._frames[task_id] = frame
        return frame

    def key_of(self, config: Mapping[str, Any]) -> str:
        """Return a node's structural key, such as ``4.sub/1.l3`` or ``4.w[1]``.

        Unlike task ids it is the same when a crash came before the step's checkpoint was durable.
        """
        metadata = config.get("metadata", {})
        segments = str(config["configurable"].get(CHECKPOINT_NS, "")).split(NS_SEPARATOR)
        outer = self.outer_key(segments[:-1])
        step = int(metadata.get("langgraph_step", 0))
        if not outer and self.base_step is not None:
            step -= self.base_step + 1
        own = f"{step}.{metadata.get('langgraph_node', '?')}"
        path = metadata.get("langgraph_path", ())
        if path and path[0] == PUSH_PATH:
            own += f"[{path[1] if isinstance(path[1], int) else path[2]}]"
        if HANDLER_PATH in path:
            own += "!handler"
        return f"{outer}/{own}" if outer else own

    def outer_key(self, segments: Sequence[str]) -> str:
        """Return the key of the innermost node that a namespace runs through."""
        key = ""
        for segment in segments:
            name, _, task_id = segment.partition(NS_END)
            if segment.isdigit():
                key = f"{key}#{segment}"
            else:
                key = self._keys.get(task_id, f"{key}/{name}" if key else name)
        return key

    def task_key(self, task_id: str, ns: str, path: str) -> str:
        """Return the key of a task whose writes arrive; one of no node is named by its path."""
        known = self._keys.get(task_id)
        if known is not None:
            return known
        outer = self.outer_key(ns.split(NS_SEPARATOR)) if ns else ""
        own = path.replace("~", "").replace(PUSH_PATH, "task") or "task"
        return f"{outer}/{own}" if outer else own

    def frame_of(self, task_id: str) -> Frame | None:
        """Return the frame of a task's node, None for a task of no node."""
        return self._frames.get(task_id)

    def leave(self, frame: Frame) -> None:
        """Forget a node whose writes are recorded."""
        with self._lock:
            self._frames.pop(frame.task_id, None)
