"""What the scripted model does about an order, step by step, as the shop's policy says.

Owns the policy as a table from intent to rule. Pure: a case goes in (what was asked, what the tools
have answered so far), the next call or the closing sentence comes out.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from pyrula_langgraph.demo.desk_reading import Intent, Reading, Request, same_product

__all__ = ["Call", "Case", "Close", "Move", "next_move"]

Answers = Mapping[str, Mapping[str, Any]]


@dataclass(frozen=True, slots=True)
class Call:
    """Use a tool."""

    tool: str
    args: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Close:
    """Nothing is left to do for this order; ``sentence`` goes into the reply."""

    sentence: str


Move = Call | Close


@dataclass(frozen=True, slots=True)
class Case:
    """One order of a ticket; ``answers`` holds what each tool has said about it, by tool name."""

    reading: Reading
    request: Request
    order: Mapping[str, Any]
    answers: Answers

    @property
    def product(self) -> str:
        """The product that the customer writes of, or the first of the order."""
        return str(self.items_meant()[0]["product"])

    def items_meant(self) -> list[Mapping[str, Any]]:
        """Return the items that the customer names, or all when none is named."""
        items: list[Mapping[str, Any]] = list(self.order["items"])
        named = [item for item in items if same_product(item["product"], self.request.text)]
        return named or items

    def refund(self, amount_cents: int, reason: str) -> Move:
        """Refund once, then tell how it ended."""
        order_id = self.order["order_id"]
        done = self.answers.get("issue_refund")
        if done is None:
            return Call(
                "issue_refund",
                {"order_id": order_id, "amount_cents": amount_cents, "reason": reason},
            )
        if done["status"] == "refunded":
            return Close(f"we have refunded {euros(amount_cents)} for order {order_id}.")
        return Close(
            f"we cannot refund order {order_id} yet: {done.get('reason', 'see our terms')}."
        )

    def replace(self) -> Move:
        """Send the product again once, then say so."""
        order_id = self.order["order_id"]
        if "ship_replacement" not in self.answers:
            return Call("ship_replacement", {"order_id": order_id, "product": self.product})
        return Close(
            f"we are sending you the {self.product} of order {order_id} again, at no cost."
        )


def next_move(case: Case) -> Move:
    """Decide what comes next for one order whose facts are known."""
    order_id = case.request.order_id
    if case.order["status"] == "unknown":
        return Close(f"we could not find an order {order_id}; could you check the number?")
    if case.reading.email and case.order["email"] != case.reading.email:
        return Close(f"order {order_id} is in another name, so only that customer can change it.")
    return RULES[case.request.intent](case)


# --- the policy -----------------------------------------------------------------------------------


def double_charge(case: Case) -> Move:
    """Give back the second payment, if there was one."""
    if case.order["payments"] < 2:
        return Close("we took one payment; the pending one is a reservation that will lapse.")
    return case.refund(case.order["total_cents"], "charged twice")


def compensation(case: Case) -> Move:
    """Refuse: the desk pays no compensation."""
    return Close(
        f"we are sorry, but we cannot pay compensation for order {case.order['order_id']}."
    )


def new_address(case: Case) -> Move:
    """Change the address while the order has not left."""
    order_id, address = case.order["order_id"], case.reading.new_address
    if case.order["status"] != "processing":
        return Close(f"order {order_id} has left already, so its address can no longer be changed.")
    if not address:
        return Close(f"please tell us the new address for order {order_id}.")
    if "change_address" not in case.answers:
        return Call("change_address", {"order_id": order_id, "address": address})
    return Close(f"order {order_id} will go to {address}.")


def our_mistake(case: Case) -> Move:
    """Damaged or wrong: the customer chooses between money and a new one."""
    if not case.order["return_open"]:
        return Close("the 30 days for complaints have passed.")
    if case.request.wants_money:
        return case.refund(meant_cents(case), case.request.intent.value)
    return case.replace()


def missing(case: Case) -> Move:
    """Ask the carrier; what is lost is refunded or sent again."""
    order_id = case.order["order_id"]
    shipment = case.answers.get("track_shipment")
    if shipment is None:
        return Call("track_shipment", {"order_id": order_id})
    if shipment["status"] == "lost":
        if case.request.wants_money:
            return case.refund(case.order["total_cents"], "lost by the carrier")
        return case.replace()
    if shipment["status"] == "delivered":
        return Close(
            f"{shipment['carrier']} delivered order {order_id} on {shipment['status_on']}; please "
            "ask your neighbours, and tell us if it does not turn up within two days."
        )
    if shipment["status"] == "not_sent":
        return Close(f"order {order_id} has not left our warehouse yet.")
    return Close(f"{shipment['carrier']} expects order {order_id} on {shipment['status_on']}.")


def cancel(case: Case) -> Move:
    """Cancel by refunding, while the order has not left."""
    if case.order["status"] != "processing":
        return Close(
            f"order {case.order['order_id']} has left already; you can return it for free."
        )
    return case.refund(case.order["total_cents"], "cancelled before it was sent")


def take_back(case: Case) -> Move:
    """Take goods back within 30 days, unless they were sold for good."""
    if any(item["final_sale"] for item in case.items_meant()):
        return Close("final-sale items cannot be returned.")
    if not case.order["return_open"]:
        return Close("the 30 days for returns have passed.")
    return case.refund(meant_cents(case), "returned within 30 days")


def unclear(case: Case) -> Move:
    """Ask."""
    return Close(f"please tell us what we can do about order {case.order['order_id']}.")


RULES: dict[Intent, Callable[[Case], Move]] = {
    Intent.DOUBLE_CHARGE: double_charge,
    Intent.COMPENSATION: compensation,
    Intent.NEW_ADDRESS: new_address,
    Intent.DAMAGED: our_mistake,
    Intent.WRONG_ITEM: our_mistake,
    Intent.MISSING: missing,
    Intent.CANCEL: cancel,
    Intent.RETURN: take_back,
    Intent.UNCLEAR: unclear,
}


def meant_cents(case: Case) -> int:
    """Add up what the items that the customer writes of have cost."""
    return sum(int(item["quantity"]) * int(item["price_cents"]) for item in case.items_meant())


def euros(cents: int) -> str:
    """Write an amount for a person."""
    return f"{cents / 100:.2f} EUR"
