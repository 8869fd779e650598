-- The tables of a store file. The file's application_id is 'PYRU' (0x50595255) and its
-- user_version is the version of this schema; both are set in the transaction that creates it.

-- A namespace isolates its runs and records from every other. `epoch_floor` is the highest epoch
-- among its deleted runs: epochs of later runs go on from there.
CREATE TABLE namespace (
    pk          INTEGER PRIMARY KEY,
    name        TEXT    NOT NULL UNIQUE,
    epoch_floor INTEGER NOT NULL DEFAULT 0
) STRICT;

-- A partition groups records. Its name may be long and stands in every record's index, so it is
-- kept once here.
CREATE TABLE partition (
    pk        INTEGER PRIMARY KEY,
    namespace INTEGER NOT NULL REFERENCES namespace,
    name      TEXT    NOT NULL,
    UNIQUE (namespace, name)
) STRICT;

-- One row a run. How long its journal is, is not kept here but read from the journal's last event:
-- an append that only adds events then writes a single page. `ready_at` is since when, or from when on, it may be claimed (NULL: not until it
-- changes). A larger `pk` was created later.
CREATE TABLE run (
    pk              INTEGER PRIMARY KEY,
    namespace       INTEGER NOT NULL REFERENCES namespace,
    name            TEXT    NOT NULL,
    run_id          TEXT    NOT NULL,
    kind            TEXT    NOT NULL,
    version         TEXT    NOT NULL,
    partition       INTEGER NOT NULL REFERENCES partition,
    status          TEXT    NOT NULL,
    epoch           INTEGER NOT NULL,
    created_at      REAL    NOT NULL,
    updated_at      REAL    NOT NULL,
    pause           INTEGER NOT NULL,
    cancel          INTEGER NOT NULL,
    owner           TEXT,
    lease_until     REAL    NOT NULL,
    wake_at         REAL,
    ready_at        REAL,
    idempotency_key TEXT,
    parent          TEXT,
    error_code      TEXT,
    user_code       TEXT,
    UNIQUE (namespace, name, run_id)
) STRICT;

CREATE UNIQUE INDEX run_idempotency ON run (namespace, name, idempotency_key)
    WHERE idempotency_key IS NOT NULL;
-- Name and version stand in the index so that runs nobody here serves are passed over within it.
CREATE INDEX run_ready ON run (namespace, ready_at, name, version) WHERE ready_at IS NOT NULL;
CREATE INDEX run_partition ON run (partition);
CREATE INDEX run_parent ON run (namespace, parent) WHERE parent IS NOT NULL;

-- The journals. `id` is run.pk * 2^24 + seq, so that a journal is one stretch of one tree and an
-- append touches the last page of its run only; there is no second index to keep. `at` is when it
-- was stored, on the store's clock.
CREATE TABLE event (
    id    INTEGER PRIMARY KEY,
    at    REAL NOT NULL,
    frame BLOB NOT NULL
) STRICT;

-- What was posted under which guard, and the number its last event got.
CREATE TABLE guard (
    run   INTEGER NOT NULL,
    guard TEXT    NOT NULL,
    seq   INTEGER NOT NULL,
    PRIMARY KEY (run, guard)
) STRICT, WITHOUT ROWID;

-- Keys and values beside the journals. A rowid table with an index, since values beyond about a
-- kilobyte make a WITHOUT ROWID table spill every row to overflow pages.
CREATE TABLE record (
    pk        INTEGER PRIMARY KEY,
    partition INTEGER NOT NULL,
    key       BLOB    NOT NULL,
    value     BLOB    NOT NULL
) STRICT;

CREATE UNIQUE INDEX record_key ON record (partition, key);

-- A run as it is read, in the order in which the code unpacks it.
CREATE VIEW run_row AS
    SELECT run.pk, run.namespace, run.partition, run.ready_at,
           run.name, run.run_id, run.kind, run.version, partition.name AS partition_name,
           run.status,
           coalesce(last.id - run.pk * 16777216, 0) AS seq,
           run.epoch, run.created_at,
           max(run.updated_at, coalesce(last.at, 0.0)) AS updated_at,
           run.pause, run.cancel, run.owner, run.lease_until, run.wake_at, run.idempotency_key,
           run.parent, run.error_code, run.user_code
      FROM run
      JOIN partition ON partition.pk = run.partition
      LEFT JOIN event AS last ON last.id = (
          SELECT max(id) FROM event
           WHERE id > run.pk * 16777216 AND id < (run.pk + 1) * 16777216);
