-- The shop's database, rebuilt from the CSV files beside this file.

CREATE TABLE customers (
    email TEXT PRIMARY KEY,
    name  TEXT NOT NULL
) STRICT, WITHOUT ROWID;

-- orders.status: processing, shipped, delivered or merged (into the order merged_into names).
-- orders.payments: how often the customer was charged; more than 1 is a mistake.
CREATE TABLE orders (
    order_id     TEXT PRIMARY KEY,
    email        TEXT NOT NULL REFERENCES customers (email),
    status       TEXT NOT NULL,
    placed_on    TEXT NOT NULL,
    delivered_on TEXT NOT NULL,
    payments     INTEGER NOT NULL,
    merged_into  TEXT NOT NULL,
    address      TEXT NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE items (
    order_id    TEXT NOT NULL REFERENCES orders (order_id),
    sku         TEXT NOT NULL,
    product     TEXT NOT NULL,
    quantity    INTEGER NOT NULL,
    price_cents INTEGER NOT NULL,
    final_sale  TEXT NOT NULL,
    PRIMARY KEY (order_id, sku)
) STRICT, WITHOUT ROWID;

-- shipments.status: in_transit (status_on is when it should arrive), delivered or lost.
CREATE TABLE shipments (
    order_id      TEXT PRIMARY KEY REFERENCES orders (order_id),
    carrier       TEXT NOT NULL,
    tracking_code TEXT NOT NULL,
    status        TEXT NOT NULL,
    status_on     TEXT NOT NULL
) STRICT, WITHOUT ROWID;
