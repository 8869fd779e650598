-- Every statement the SQLite store runs. A line "-- name: x" starts the statement x; question marks
-- and :names are bound, never filled in. What is decided is in rules.py, not here.

-- --- namespaces ---------------------------------------------------------------------------------

-- name: find_namespace
SELECT pk FROM namespace WHERE name = ?

-- name: add_namespace
INSERT INTO namespace (name) VALUES (?)

-- name: epoch_floor
SELECT epoch_floor FROM namespace WHERE pk = ?

-- name: raise_epoch_floor
UPDATE namespace SET epoch_floor = max(epoch_floor, ?) WHERE pk = ?

-- --- runs ---------------------------------------------------------------------------------------

-- name: find_run
SELECT * FROM run_row WHERE namespace = ? AND name = ? AND run_id = ?

-- The part of a run that decides about an append; see Standing in sqlite_reads.py.
-- name: find_standing
SELECT pk, partition,
       coalesce((SELECT max(id) FROM event
                  WHERE id > pk * 16777216 AND id < (pk + 1) * 16777216) - pk * 16777216, 0),
       epoch, status, owner, wake_at, pause, cancel
  FROM run WHERE namespace = ? AND name = ? AND run_id = ?

-- The oldest run of a partition that has not ended.
-- name: open_in_partition
SELECT run_row.* FROM run_row
 WHERE namespace = ? AND partition = ?
   AND status NOT IN ('complete', 'error', 'cancelled', 'continued')
 ORDER BY pk LIMIT 1

-- name: find_idempotent
SELECT * FROM run_row WHERE namespace = ? AND name = ? AND idempotency_key = ?

-- The run that has waited longest. :serves is a JSON list of [name, version]; an empty version
-- serves every one. The index hands out runs in the order they became ready, so the first that
-- fits ends the search, and those that do not fit are passed over without reading their rows.
-- name: next_ready
SELECT * FROM run_row
 WHERE pk = (
    SELECT pk FROM run INDEXED BY run_ready
     WHERE namespace = :namespace AND ready_at <= :now
       AND EXISTS (
           SELECT 1 FROM json_each(:serves) AS served
            WHERE served.value ->> 0 = run.name
              AND served.value ->> 1 IN ('', run.version))
     ORDER BY ready_at, pk LIMIT 1)

-- name: add_run
INSERT INTO run (namespace, partition, ready_at, name, run_id, kind, version, status, epoch,
                 created_at, updated_at, pause, cancel, owner, lease_until, wake_at,
                 idempotency_key, parent, error_code, user_code)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)

-- name: update_run
UPDATE run
   SET ready_at = ?, status = ?, epoch = ?, updated_at = ?, pause = ?, cancel = ?,
       owner = ?, lease_until = ?, wake_at = ?, error_code = ?, user_code = ?
 WHERE pk = ?

-- name: renew_run
UPDATE run SET lease_until = ?, ready_at = ? WHERE pk = ?

-- name: delete_run
DELETE FROM run WHERE pk = ?

-- A listing: list_runs, then each list_by that is asked for behind an AND, then list_order.
-- name: list_runs
SELECT * FROM run_row WHERE namespace = :namespace

-- name: list_by_name
name = :name

-- A run that waits with its pause flag set is shown as paused: see RunRow.shown_status.
-- name: list_by_statuses
CASE WHEN pause AND status IN ('queued', 'waiting', 'interrupted') THEN 'paused' ELSE status END
    IN (SELECT value FROM json_each(:statuses))

-- name: list_by_error_code
error_code = :error_code

-- name: list_by_created_after
created_at > :created_after

-- name: list_by_created_before
created_at < :created_before

-- name: list_by_partition
partition = (SELECT pk FROM partition WHERE namespace = :namespace AND name = :partition)

-- name: list_by_parent
parent = :parent

-- name: list_by_cursor
pk < :cursor

-- name: list_order
ORDER BY pk DESC LIMIT :limit

-- --- events: their ids are run.pk * 2^24 + seq ----------------------------------------------------

-- name: add_event
INSERT INTO event (id, at, frame) VALUES (?, ?, ?)

-- The append of every ordinary step, as one statement that is its own transaction: it adds the
-- event where the run is held under this epoch, stands exactly here and was asked nothing. It only
-- ever says yes; where it adds no row, the append goes the long way and rules.py decides.
-- name: add_event_if_ordinary
INSERT INTO event (id, at, frame)
SELECT pk * 16777216 + :seq, :at, :frame
  FROM run
 WHERE namespace = :namespace AND name = :name AND run_id = :run_id
   AND epoch = :epoch AND status = 'running' AND owner IS NOT NULL
   AND wake_at IS NULL AND NOT pause AND NOT cancel
   AND (SELECT max(id) FROM event WHERE id > pk * 16777216 AND id < (pk + 1) * 16777216)
       = pk * 16777216 + :seq - 1

-- name: events
SELECT id, frame FROM event WHERE id > ? AND id < ? ORDER BY id LIMIT ?

-- name: delete_events
DELETE FROM event WHERE id > ? AND id < ?

-- name: find_guard
SELECT seq FROM guard WHERE run = ? AND guard = ?

-- name: add_guard
INSERT INTO guard (run, guard, seq) VALUES (?, ?, ?)

-- name: delete_guards
DELETE FROM guard WHERE run = ?

-- --- records ------------------------------------------------------------------------------------

-- name: find_partition
SELECT pk FROM partition WHERE namespace = ? AND name = ?

-- name: add_partition
INSERT INTO partition (namespace, name) VALUES (?, ?)

-- A prefix is compared by its length, not by LIKE: it may hold any character.
-- name: partitions
SELECT name FROM partition
 WHERE namespace = :namespace AND name >= :prefix
   AND substr(name, 1, length(:prefix)) = :prefix
   AND EXISTS (SELECT 1 FROM record WHERE record.partition = partition.pk)
 ORDER BY name

-- name: find_record
SELECT value FROM record WHERE partition = ? AND key = ?

-- name: put_record
INSERT INTO record (partition, key, value) VALUES (?, ?, ?)
    ON CONFLICT (partition, key) DO UPDATE SET value = excluded.value

-- name: delete_record
DELETE FROM record WHERE partition = ? AND key = ?

-- name: delete_records
DELETE FROM record WHERE partition = ? AND key >= ? AND key < ?

-- name: scan_records
SELECT key, value FROM record WHERE partition = ? AND key >= ? AND key < ? ORDER BY key LIMIT ?

-- name: scan_records_reverse
SELECT key, value FROM record WHERE partition = ? AND key >= ? AND key < ? ORDER BY key DESC LIMIT ?
