"""The tools of the order desk: look up, track, refund, replace, change an address, reply.

Owns what each act does to the shop and the ledger, and that a refund above the limit waits for a
person. Every act carries an idempotency key, so that a repeated one changes nothing. Must never
decide which act is right: that is the model's part.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass

from langchain.tools import ToolRuntime
from langchain_core.messages import AnyMessage
from langchain_core.tools import BaseTool, StructuredTool
from langgraph.types import interrupt

from pyrula_langgraph.demo.approvals import ApprovalRequest
from pyrula_langgraph.demo.effects import Effect, EffectKind
from pyrula_langgraph.demo.ledger import Ledger
from pyrula_langgraph.demo.shop import Shop

__all__ = ["DeskTools"]

TICKET = re.compile(r"^Ticket: (\S+)", re.MULTILINE)

Runtime = ToolRuntime[None, dict[str, list[AnyMessage]]]


@dataclass(frozen=True)
class DeskTools:
    """The tools, bound to one shop and one ledger.

    ``approval_above_cents`` is the largest refund that needs no person; ``delay_seconds`` is how
    long each act takes, half of it before and half after its effect, as with a real service;
    ``key`` turns the id of a tool call into the idempotency key that the outside world gets.
    """

    shop: Shop
    ledger: Ledger
    approval_above_cents: int = 10_000
    delay_seconds: float = 0.02
    key: Callable[[str], str] = str

    def all(self) -> list[BaseTool]:
        """Return the tools as LangChain knows them."""
        return [
            StructuredTool.from_function(function)
            for function in (
                self.lookup_order,
                self.track_shipment,
                self.issue_refund,
                self.ship_replacement,
                self.change_address,
                self.send_reply,
            )
        ]

    def lookup_order(self, order_id: str, runtime: Runtime) -> str:
        """Look an order up: customer, status, items, prices, payments, return window."""
        self._perform(runtime, EffectKind.LOOKUP, order_id)
        order = self.shop.order(order_id)
        if order is None:
            return answer("unknown", order_id=order_id)
        known = asdict(order) | {"total_cents": order.total_cents, "return_open": order.return_open}
        return json.dumps(known, ensure_ascii=False)

    def track_shipment(self, order_id: str, runtime: Runtime) -> str:
        """Ask the carrier where the parcel of an order is."""
        self._perform(runtime, EffectKind.TRACKING, order_id)
        shipment = self.shop.shipment(order_id)
        if shipment is None:
            return answer("not_sent", order_id=order_id)
        return json.dumps({"order_id": order_id} | asdict(shipment), ensure_ascii=False)

    def issue_refund(self, order_id: str, amount_cents: int, reason: str, runtime: Runtime) -> str:
        """Pay money back for an order; the amount is in euro cents. Large ones need approval."""
        order = self.shop.order(order_id)
        if order is None:
            return answer("refused", reason=f"there is no order {order_id}")
        if not 0 < amount_cents <= order.total_cents:
            return answer("refused", reason=f"at most {order.total_cents} cents can be refunded")
        if amount_cents > self.approval_above_cents:
            request: ApprovalRequest = {
                "kind": "refund_approval",
                "ticket": ticket_of(runtime),
                "order_id": order_id,
                "amount_cents": amount_cents,
                "reason": reason,
            }
            # Nothing may happen before this line: after the answer the tool starts anew.
            decision = interrupt(request)
            if not decision["approved"]:
                return answer("rejected", order_id=order_id, reason=decision.get("note", ""))
        self._perform(runtime, EffectKind.REFUND, order_id, amount_cents)
        return answer("refunded", order_id=order_id, amount_cents=amount_cents)

    def ship_replacement(self, order_id: str, product: str, runtime: Runtime) -> str:
        """Send a product of an order once more, free of charge."""
        self._perform(runtime, EffectKind.REPLACEMENT, order_id)
        return answer("replacement_sent", order_id=order_id, product=product)

    def change_address(self, order_id: str, address: str, runtime: Runtime) -> str:
        """Change where an order that was not sent yet is delivered to."""
        order = self.shop.order(order_id)
        if order is None or order.status != "processing":
            return answer("refused", order_id=order_id, reason="it was sent already")
        self.shop.set_address(order_id, address=address)
        self._perform(runtime, EffectKind.ADDRESS, order_id)
        return answer("address_changed", order_id=order_id, address=address)

    def send_reply(self, text: str, runtime: Runtime) -> str:
        """Send the customer the answer to the ticket; once per ticket, as the last act."""
        if not text.strip():
            return answer("refused", reason="the reply is empty")
        self._perform(runtime, EffectKind.REPLY)
        return answer("reply_sent")

    def _perform(
        self, runtime: Runtime, kind: EffectKind, order_id: str = "", amount_cents: int = 0
    ) -> None:
        """Let the effect reach the outside world, taking the time that such a call takes."""
        key = self.key(runtime.tool_call_id or "")
        time.sleep(self.delay_seconds / 2)
        self.ledger.record(Effect(ticket_of(runtime), kind, key, order_id, amount_cents))
        time.sleep(self.delay_seconds / 2)


def ticket_of(runtime: Runtime) -> str:
    """Find the ticket's number in the conversation; ``-`` when somebody just chats."""
    for message in reversed(runtime.state["messages"]):
        found = TICKET.search(message.text) if message.type == "human" else None
        if found:
            return found.group(1)
    return "-"


def answer(status: str, **fields: str | int) -> str:
    """Write a tool's result as JSON."""
    return json.dumps({"status": status} | fields, ensure_ascii=False)
