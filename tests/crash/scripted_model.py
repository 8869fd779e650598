"""A chat model for tests: it decides from the messages alone and needs no network."""

from __future__ import annotations

from typing import Any

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage, ToolMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from pydantic import ConfigDict

from tests.crash.effects import EffectsLog


class ScriptedModel(BaseChatModel):
    """Looks an order up and its customer, both at once; then refunds it; then says so."""

    effects: EffectsLog

    model_config = ConfigDict(arbitrary_types_allowed=True)

    @property
    def _llm_type(self) -> str:
        return "scripted"

    def bind_tools(self, tools: Any, **kwargs: Any) -> ScriptedModel:
        return self

    def _generate(self, messages: list[BaseMessage], *args: Any, **kwargs: Any) -> ChatResult:
        self.effects.happened()
        return ChatResult(generations=[ChatGeneration(message=next_message(messages))])


def next_message(messages: list[BaseMessage]) -> AIMessage:
    """Return what the model says to a conversation; its id tells the turn."""
    answers = [message for message in messages if isinstance(message, ToolMessage)]
    turn = f"ai-{len(messages)}"
    if not answers:
        return AIMessage(
            content="Let me see.",
            id=turn,
            tool_calls=[
                {"name": "look_up", "args": {"order": 42}, "id": "call-1"},
                {"name": "refund", "args": {"order": 41}, "id": "call-2"},
            ],
        )
    if len(answers) == 2:
        order = {"name": "refund", "args": {"order": 42}, "id": "call-3"}
        return AIMessage(content="Found it.", id=turn, tool_calls=[order])
    return AIMessage(content=f"Done: {answers[-1].content}", id=turn)
