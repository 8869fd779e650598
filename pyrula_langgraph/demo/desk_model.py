"""The chat models of the demo: a scripted one that needs no key and no network, or a real one.

Owns the choice between them. The scripted model calls tools over several turns as a real one does;
what it says is decided in ``desk_script``.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from importlib.util import find_spec
from typing import Any

from langchain.chat_models import init_chat_model
from langchain_core.callbacks import CallbackManagerForLLMRun
from langchain_core.language_models import BaseChatModel, LanguageModelInput
from langchain_core.messages import AIMessage, BaseMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.runnables import Runnable
from langchain_core.tools import BaseTool
from typing_extensions import override

from pyrula_langgraph.demo.desk_script import next_message

__all__ = ["ScriptedDeskModel", "choose_model"]

PROVIDERS = (
    ("OPENAI_API_KEY", "langchain_openai", "openai:gpt-4.1-mini"),
    ("MISTRAL_API_KEY", "langchain_mistralai", "mistralai:mistral-small-latest"),
    ("GOOGLE_API_KEY", "langchain_google_genai", "google_genai:gemini-2.5-flash"),
)
"""The variable with the key, the package that must be installed, the model that is used."""


class ScriptedDeskModel(BaseChatModel):
    """A deterministic chat model that works an order desk: the same messages, the same answer."""

    @property
    def _llm_type(self) -> str:
        return "scripted-order-desk"

    @override
    def bind_tools(
        self,
        tools: Sequence[dict[str, Any] | type | Callable[..., Any] | BaseTool],
        *,
        tool_choice: str | None = None,
        **kwargs: Any,
    ) -> Runnable[LanguageModelInput, AIMessage]:
        """Accept the tools; the script knows them by name."""
        return self

    @override
    def _generate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: CallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> ChatResult:
        return ChatResult(generations=[ChatGeneration(message=next_message(messages))])


def choose_model(name: str = "scripted") -> BaseChatModel:
    """Return the model of that name.

    ``scripted`` costs nothing and is the default, also where a key is set. ``auto`` takes the first
    provider whose key is set and whose package is installed, else the scripted model. Anything else
    is a name that ``init_chat_model`` knows, such as ``openai:gpt-4.1-mini``.
    """
    if name == "auto":
        name = next(
            (model for key, package, model in PROVIDERS if usable(key, package)), "scripted"
        )
    if name == "scripted":
        return ScriptedDeskModel()
    return init_chat_model(name)


def usable(key: str, package: str) -> bool:
    """Tell whether a provider can be used here."""
    return bool(os.environ.get(key)) and find_spec(package) is not None
