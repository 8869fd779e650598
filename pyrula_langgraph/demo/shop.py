"""The shop: a small SQLite database of customers, orders, items and shipments.

Owns the orders' facts and the return window. Must never know about tickets, tools or the ledger.
"""

from __future__ import annotations

import csv
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from datetime import date, timedelta
from importlib import resources
from pathlib import Path

__all__ = ["Item", "Order", "Shipment", "Shop", "build_shop"]

TODAY = date(2026, 3, 16)
"""The day on which all tickets are worked through, so that the demo ends the same every year."""

return_window = timedelta(days=30)
lock_wait_seconds_max = 30.0

INSERTS = {
    "customers": "INSERT INTO customers VALUES (:email, :name)",
    "orders": """
        INSERT INTO orders VALUES (:order_id, :email, :status, :placed_on, :delivered_on,
                                   :payments, :merged_into, :address)
    """,
    "items": """
        INSERT INTO items VALUES (:order_id, :sku, :product, :quantity, :price_cents, :final_sale)
    """,
    "shipments": """
        INSERT INTO shipments VALUES (:order_id, :carrier, :tracking_code, :status, :status_on)
    """,
}
ORDER = """
    SELECT order_id, email, status, delivered_on, payments, merged_into, address
    FROM orders WHERE order_id = ?
"""
ITEMS = """
    SELECT sku, product, quantity, price_cents, final_sale = 'yes'
    FROM items WHERE order_id = ? ORDER BY sku
"""
SHIPMENT = "SELECT carrier, tracking_code, status, status_on FROM shipments WHERE order_id = ?"
SET_ADDRESS = "UPDATE orders SET address = :address WHERE order_id = :order_id"


@dataclass(frozen=True, slots=True)
class Item:
    """A line of an order; ``price_cents`` is for one piece."""

    sku: str
    product: str
    quantity: int
    price_cents: int
    final_sale: bool


@dataclass(frozen=True, slots=True)
class Order:
    """An order and its items; ``delivered_on`` is an ISO date, or empty before delivery."""

    order_id: str
    email: str
    status: str
    delivered_on: str
    payments: int
    merged_into: str
    address: str
    items: tuple[Item, ...]

    @property
    def total_cents(self) -> int:
        """What one payment of this order amounts to."""
        return sum(item.quantity * item.price_cents for item in self.items)

    @property
    def return_open(self) -> bool:
        """True while the customer may still return it."""
        if not self.delivered_on:
            return False
        return TODAY - date.fromisoformat(self.delivered_on) <= return_window


@dataclass(frozen=True, slots=True)
class Shipment:
    """Where a parcel is; ``status_on`` is the ISO date of its status."""

    carrier: str
    tracking_code: str
    status: str
    status_on: str


def build_shop(path: str | Path) -> Shop:
    """Write a fresh shop database to ``path``, replacing a file that is there, and open it."""
    Path(path).unlink(missing_ok=True)
    with connect(path) as connection:
        connection.executescript(shipped("shop.sql"))
        connection.execute("BEGIN IMMEDIATE")
        for table, insert in INSERTS.items():
            rows = csv.DictReader(shipped(f"shop_{table}.csv").splitlines())
            connection.executemany(insert, list(rows))
        connection.execute("COMMIT")
    return Shop(path)


class Shop:
    """An opened shop database; safe to use from several threads and processes at once."""

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        if not self.path.exists():
            raise FileNotFoundError(f"no shop database at {str(path)!r}; call build_shop first")

    def order(self, order_id: str) -> Order | None:
        """Return the order, or None when there is none of that number."""
        with connect(self.path) as connection:
            row = connection.execute(ORDER, (order_id,)).fetchone()
            lines = connection.execute(ITEMS, (order_id,)).fetchall()
        if row is None:
            return None
        items = tuple(
            Item(sku, product, quantity, price_cents, bool(final_sale))
            for sku, product, quantity, price_cents, final_sale in lines
        )
        order_id, email, status, delivered_on, payments, merged_into, address = row
        return Order(order_id, email, status, delivered_on, payments, merged_into, address, items)

    def shipment(self, order_id: str) -> Shipment | None:
        """Return the order's shipment, or None when nothing was sent yet."""
        with connect(self.path) as connection:
            row = connection.execute(SHIPMENT, (order_id,)).fetchone()
        return None if row is None else Shipment(*row)

    def set_address(self, order_id: str, *, address: str) -> None:
        """Change where an order goes; the same change again changes nothing."""
        with connect(self.path) as connection:
            connection.execute(SET_ADDRESS, {"order_id": order_id, "address": address})


@contextmanager
def connect(path: str | Path) -> Iterator[sqlite3.Connection]:
    """Open the file for one act."""
    connection = sqlite3.connect(path, timeout=lock_wait_seconds_max, isolation_level=None)
    with closing(connection):
        yield connection


def shipped(name: str) -> str:
    """Read a text file that is shipped with the package."""
    return resources.files(__package__).joinpath(name).read_text("utf-8")
