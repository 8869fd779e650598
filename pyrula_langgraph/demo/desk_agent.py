"""The order desk as a plain LangGraph agent: what a user of LangGraph would write, nothing more.

It has no checkpointer and knows nothing of Pyrula.
"""

from __future__ import annotations

from typing import Any

from langchain.agents import create_agent
from langchain_core.language_models import BaseChatModel
from langgraph.graph.state import CompiledStateGraph

from pyrula_langgraph.demo.ledger import Ledger
from pyrula_langgraph.demo.shop import Shop
from pyrula_langgraph.demo.tools import DeskTools

__all__ = ["build_agent"]

PROMPT = """\
You work at the order desk of Heron & Pine, an online shop for home goods. You are given one ticket.
Look up every order it names before you act. Only help the customer who placed the order.
Goods may be returned within 30 days of delivery, unless they were a final sale. What arrived
damaged or wrong, or was lost, is replaced, or refunded if the customer prefers. An order that is
still processing may be cancelled (refund it) or sent to another address. A second payment for the
same order is refunded. We pay no compensation. Never refund more than was paid. At the end send
exactly one reply to the customer.
"""


def build_agent(
    shop: Shop, ledger: Ledger, model: BaseChatModel, *, tools: DeskTools | None = None
) -> CompiledStateGraph[Any, Any, Any, Any]:
    """Return the agent for one shop and one ledger; ``tools`` replaces the usual settings."""
    desk = tools or DeskTools(shop, ledger)
    return create_agent(model, desk.all(), system_prompt=PROMPT, name="order-desk")
