"""The scripted model's turn: from the conversation so far to the next message.

Owns the order of acts: look up, act on each order, reply once, say that it is done. It decides from
the messages alone and remembers nothing, so that it goes on after any restart. Pure.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, ToolCall, ToolMessage

from pyrula_langgraph.demo.desk_policy import Call, Case, Close, next_move
from pyrula_langgraph.demo.desk_reading import Reading, Request, read_ticket, same_product

__all__ = ["next_message"]


@dataclass(frozen=True, slots=True)
class Answered:
    """A tool call that has been answered."""

    tool: str
    args: Mapping[str, Any]
    result: Mapping[str, Any]


def next_message(messages: Sequence[BaseMessage]) -> AIMessage:
    """Return the next message of the conversation; the same messages give the same one."""
    current = since_last_question(messages)
    reading = read_ticket(current[0].text if current else "")
    answered = answered_calls(current)
    turn = sum(isinstance(message, AIMessage) for message in messages) + 1
    calls = next_calls(reading, answered)
    return AIMessage(
        id=f"{reading.ticket}-message-{turn}",
        content="" if calls else f"{reading.ticket} is done: the customer has an answer.",
        tool_calls=[
            ToolCall(name=call.tool, args=dict(call.args), id=f"{reading.ticket}-call-{turn}-{n}")
            for n, call in enumerate(calls, start=1)
        ],
    )


def since_last_question(messages: Sequence[BaseMessage]) -> Sequence[BaseMessage]:
    """Cut away what came before the customer's last message."""
    asked = [n for n, message in enumerate(messages) if isinstance(message, HumanMessage)]
    return messages[asked[-1] :] if asked else []


def answered_calls(messages: Sequence[BaseMessage]) -> list[Answered]:
    """Join each tool's answer with the call that asked for it, in the order of the calls."""
    results = {m.tool_call_id: parsed(m) for m in messages if isinstance(m, ToolMessage)}
    calls = [call for m in messages if isinstance(m, AIMessage) for call in m.tool_calls]
    return [
        Answered(call["name"], call["args"], results[call["id"] or ""])
        for call in calls
        if call["id"] in results
    ]


def parsed(message: ToolMessage) -> Mapping[str, Any]:
    """Read a tool's JSON; a failed tool gives its words as the reason."""
    try:
        result = json.loads(message.text)
    except ValueError:
        return {"status": "failed", "reason": message.text}
    return result if isinstance(result, dict) else {"status": "failed", "reason": message.text}


def next_calls(reading: Reading, answered: Sequence[Answered]) -> list[Call]:
    """Decide which tools to use now, several at once where they do not depend on each other."""
    if any(done.tool == "send_reply" for done in answered):
        return []
    orders = {
        str(done.args["order_id"]): done.result for done in answered if done.tool == "lookup_order"
    }
    unseen = [order for order in wanted_orders(reading, orders) if order not in orders]
    if unseen:
        return [Call("lookup_order", {"order_id": order}) for order in unseen]
    cases = [case_of(reading, asked, orders, answered) for asked in relevant(reading, orders)]
    moves = [next_move(case) for case in cases]
    calls = [move for move in moves if isinstance(move, Call)]
    closing = [move.sentence for move in moves if isinstance(move, Close)]
    return calls or [Call("send_reply", {"text": reply(reading, closing)})]


def wanted_orders(reading: Reading, orders: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """Name every order that must be looked up: those of the ticket and those they went into."""
    asked = [request.order_id for request in reading.requests]
    return asked + [order["merged_into"] for order in orders.values() if order.get("merged_into")]


def relevant(reading: Reading, orders: Mapping[str, Mapping[str, Any]]) -> list[Request]:
    """Drop the orders that the customer only guessed: they hold nothing of what is written of."""
    first = reading.requests[0].text if reading.requests else ""
    guessing = " or " in first and all(request.text == first for request in reading.requests)
    if not guessing:
        return list(reading.requests)
    return [
        request
        for request in reading.requests
        if any(
            same_product(item["product"], request.text)
            for item in orders[request.order_id].get("items", [])
        )
    ]


def case_of(
    reading: Reading,
    request: Request,
    orders: Mapping[str, Mapping[str, Any]],
    answered: Sequence[Answered],
) -> Case:
    """Gather all that is known about one order, or about the order that it was merged into."""
    order = orders[request.order_id]
    order = orders.get(order.get("merged_into", ""), order)
    about = [done for done in answered if done.args.get("order_id") == order.get("order_id")]
    answers = {done.tool: done.result for done in about}
    return Case(reading, request, order, answers)


def reply(reading: Reading, sentences: Sequence[str]) -> str:
    """Write the answer to the customer."""
    said = list(sentences) or ["please tell us your order number (it starts with A-)."]
    body = " ".join(sentence[0].upper() + sentence[1:] for sentence in said)
    return f"Dear {reading.name},\n\n{body}\n\nKind regards\nThe order desk"
