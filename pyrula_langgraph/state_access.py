"""State, history and drawing of a durable graph: LangGraph's own methods over our saver."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any

from langgraph.pregel import Pregel

if TYPE_CHECKING:
    from pyrula_langgraph.saver import JournalSaver

__all__ = ["StateAccess"]


class StateAccess:
    """The methods that look at a thread or at the graph's shape, and run no node."""

    graph: Pregel[Any, Any, Any, Any]
    saver: JournalSaver

    @property
    def on_saver(self) -> Pregel[Any, Any, Any, Any]:
        """The original graph with our saver: what reads and edits a thread's state."""
        graph = copy.copy(self.graph)
        graph.checkpointer = self.saver
        return graph

    def get_state(self, config: Any, **kwargs: Any) -> Any:
        """Return a thread's state."""
        return self.on_saver.get_state(config, **kwargs)

    async def aget_state(self, config: Any, **kwargs: Any) -> Any:
        """Return a thread's state."""
        return await self.on_saver.aget_state(config, **kwargs)

    def get_state_history(self, config: Any, **kwargs: Any) -> Any:
        """Yield a thread's states, newest first."""
        return self.on_saver.get_state_history(config, **kwargs)

    def aget_state_history(self, config: Any, **kwargs: Any) -> Any:
        """Yield a thread's states, newest first."""
        return self.on_saver.aget_state_history(config, **kwargs)

    def update_state(self, config: Any, values: Any, as_node: Any = None, **kwargs: Any) -> Any:
        """Edit a thread's state."""
        return self.on_saver.update_state(config, values, as_node, **kwargs)

    async def aupdate_state(
        self, config: Any, values: Any, as_node: Any = None, **kwargs: Any
    ) -> Any:
        """Edit a thread's state."""
        return await self.on_saver.aupdate_state(config, values, as_node, **kwargs)

    def bulk_update_state(self, config: Any, updates: Any) -> Any:
        """Edit a thread's state several times."""
        return self.on_saver.bulk_update_state(config, updates)

    async def abulk_update_state(self, config: Any, updates: Any) -> Any:
        """Edit a thread's state several times."""
        return await self.on_saver.abulk_update_state(config, updates)

    def get_graph(self, *args: Any, **kwargs: Any) -> Any:
        """Return the drawable graph."""
        return self.graph.get_graph(*args, **kwargs)

    async def aget_graph(self, *args: Any, **kwargs: Any) -> Any:
        """Return the drawable graph."""
        return await self.graph.aget_graph(*args, **kwargs)

    @property
    def InputType(self) -> Any:  # noqa: N802 (LangChain's name)
        """The type of the graph's input."""
        return self.graph.InputType

    @property
    def OutputType(self) -> Any:  # noqa: N802 (LangChain's name)
        """The type of the graph's output."""
        return self.graph.OutputType

    def get_input_schema(self, config: Any = None) -> Any:
        """Return the graph's input as a pydantic model."""
        return self.graph.get_input_schema(config)

    def get_output_schema(self, config: Any = None) -> Any:
        """Return the graph's output as a pydantic model."""
        return self.graph.get_output_schema(config)

    def with_config(self, config: Any = None, **kwargs: Any) -> Any:
        """Return this graph with a config bound to it."""
        bound = copy.copy(self)
        bound.graph = self.graph.with_config(config, **kwargs)
        return bound
