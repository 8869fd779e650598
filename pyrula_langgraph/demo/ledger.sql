-- The effects ledger stands for the outside world: the payment provider, the warehouse, the mailer.

-- settled: what really happened, once per idempotency key.
CREATE TABLE IF NOT EXISTS settled (
    kind         TEXT NOT NULL,
    key          TEXT NOT NULL,
    ticket       TEXT NOT NULL,
    order_id     TEXT NOT NULL,
    amount_cents INTEGER NOT NULL,
    PRIMARY KEY (kind, key)
) STRICT, WITHOUT ROWID;

-- attempts: every request that arrived, also the repeated ones, with the process that sent it.
CREATE TABLE IF NOT EXISTS attempts (
    seq          INTEGER PRIMARY KEY,
    ticket       TEXT NOT NULL,
    kind         TEXT NOT NULL,
    key          TEXT NOT NULL,
    order_id     TEXT NOT NULL,
    amount_cents INTEGER NOT NULL,
    effective    INTEGER NOT NULL,
    pid          INTEGER NOT NULL,
    at           REAL NOT NULL
) STRICT;
