"""The human in the loop, and a rule that can stand in for one.

Owns the shape of an approval request and of its answer. Must never issue a refund.
"""

from __future__ import annotations

from typing import TypedDict

__all__ = ["ApprovalAnswer", "ApprovalRequest", "answer_by_rule"]

approved_cents_max = 50_000


class ApprovalRequest(TypedDict):
    """What ``issue_refund`` asks a person before it pays more than its limit."""

    kind: str
    ticket: str
    order_id: str
    amount_cents: int
    reason: str


class ApprovalAnswer(TypedDict):
    """What the person says."""

    approved: bool
    note: str


def answer_by_rule(request: ApprovalRequest) -> ApprovalAnswer:
    """Approve up to ``approved_cents_max`` and reject what is above it."""
    if request["amount_cents"] <= approved_cents_max:
        return {"approved": True, "note": "approved by the desk's lead"}
    return {"approved": False, "note": "above 500.00 EUR a colleague must inspect the goods first"}
