"""How the scripted model understands a ticket: which orders it names and what it asks for each.

Owns the words that customers use, as a table. Pure: text in, values out.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum

__all__ = ["Intent", "Reading", "Request", "read_ticket", "same_product"]

ORDER_ID = re.compile(r"\bA-\d{5}\b")
HEADER = re.compile(
    r"Ticket: (?P<ticket>\S+)\nFrom: (?P<name>.*?) <(?P<email>.*?)>\n"
    r"Subject: (?P<subject>.*?)\n\n(?P<body>.*)",
    re.DOTALL,
)
SENTENCE_END = re.compile(r"(?<=[.!?])\s+|\n+")
NEW_ADDRESS = re.compile(r"new address:\s*(.+)", re.IGNORECASE)
KEEPS = re.compile(r"\bI keep\b", re.IGNORECASE)
product_word_chars_min = 4


class Intent(StrEnum):
    """What a customer wants done about an order."""

    DOUBLE_CHARGE = "double charge"
    COMPENSATION = "compensation"
    NEW_ADDRESS = "new address"
    DAMAGED = "damaged"
    WRONG_ITEM = "wrong item"
    MISSING = "missing"
    CANCEL = "cancel"
    RETURN = "return"
    UNCLEAR = "unclear"


WORDS: dict[Intent, str] = {
    Intent.DOUBLE_CHARGE: r"charged .*twice|charged twice|double payment|paid two times",
    Intent.COMPENSATION: r"compensation|goodwill|price match",
    Intent.NEW_ADDRESS: r"new address|change the (delivery )?address",
    Intent.DAMAGED: r"shatter|crack|broke|in pieces|stopped working|chipped|dented|kaputt",
    Intent.WRONG_ITEM: r"wrong (item|size|colou?r|product)|equivocado|falscher artikel",
    Intent.MISSING: r"where is|no sign of|not arrived|immer noch nicht da|toujours pas reçu",
    Intent.CANCEL: r"\bcancel",
    Intent.RETURN: r"refund|money back|\breturn\b|send it back",
}
"""The first that matches wins: who writes of a broken kettle and a refund has a broken kettle."""

MONEY = re.compile(r"refund|money back|one of them back|geld zurück|remboursement", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Request:
    """What is asked for one order, in the words that concern it."""

    order_id: str
    intent: Intent
    wants_money: bool
    text: str


@dataclass(frozen=True, slots=True)
class Reading:
    """A ticket, understood."""

    ticket: str
    name: str
    email: str
    requests: tuple[Request, ...]
    new_address: str


def read_ticket(text: str) -> Reading:
    """Understand a ticket; a text without its header comes from a nameless customer."""
    found = HEADER.search(text)
    parts = found.groupdict() if found else {"body": text}
    words = f"{parts.get('subject', '')}\n{parts['body']}"
    orders = list(dict.fromkeys(ORDER_ID.findall(words)))
    address = NEW_ADDRESS.search(words)
    return Reading(
        ticket=parts.get("ticket", "-"),
        name=parts.get("name", "customer"),
        email=parts.get("email", ""),
        requests=tuple(request(order, words, alone=len(orders) == 1) for order in orders),
        new_address=address.group(1).strip() if address else "",
    )


def request(order_id: str, words: str, *, alone: bool) -> Request:
    """Read what is asked for an order: in its own sentences, or in the ticket as a whole."""
    sentences = [part for part in SENTENCE_END.split(words) if not KEEPS.search(part)]
    words = " ".join(sentences)
    own = " ".join(sentence for sentence in sentences if order_id in sentence)
    if alone or intent_of(own) is Intent.UNCLEAR:
        own = words
    return Request(order_id, intent_of(own), bool(MONEY.search(words)), own)


def intent_of(text: str) -> Intent:
    """Find the first intent whose words occur."""
    for intent, pattern in WORDS.items():
        if re.search(pattern, text, re.IGNORECASE):
            return intent
    return Intent.UNCLEAR


def same_product(product: str, text: str) -> bool:
    """Tell whether the customer's words name this product."""
    words = re.findall(r"\w+", product.lower())
    said = text.lower()
    return any(len(word) >= product_word_chars_min and word in said for word in words)
