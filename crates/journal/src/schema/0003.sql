-- Executors: processes that have runs. Its number is the fencing token and is never given twice; whoever is retired goes.
CREATE TABLE executor (
    epoch INTEGER PRIMARY KEY AUTOINCREMENT,
    pid   INTEGER NOT NULL,
    born  INTEGER NOT NULL,
    boot  TEXT NOT NULL,
    beats INTEGER NOT NULL DEFAULT 0
);
INSERT INTO executor (pid, born, boot)
    SELECT DISTINCT owner_pid, owner_born, owner_boot FROM run WHERE status IN ('queued', 'running', 'waiting');

-- A run has an executor's epoch, or nobody has it. `root` is the first run of its tree, where that is another one.
-- `cancel` is who asked that it end, and why (DAG-CBOR). The parent of an older run stands in `start` as key and 16 bytes.
CREATE TABLE run_3 (
    row        INTEGER PRIMARY KEY,
    id         BLOB NOT NULL CHECK (length(id) = 16),
    tail       TEXT NOT NULL,
    thread     INTEGER NOT NULL REFERENCES thread (row),
    parent     BLOB,
    root       BLOB,
    name       TEXT,
    plan_step  TEXT,
    status     TEXT NOT NULL,
    epoch      INTEGER,
    cancel     BLOB,
    start      BLOB NOT NULL,
    state      BLOB NOT NULL,
    updated_at INTEGER NOT NULL
);
INSERT INTO run_3
    SELECT row, id, tail, thread,
           iif(instr(start, X'66706172656E7450') > 0, substr(start, instr(start, X'66706172656E7450') + 8, 16), NULL),
           NULL, name, NULL, status,
           iif(status IN ('running', 'waiting'),
               (SELECT epoch FROM executor WHERE pid = owner_pid AND born = owner_born AND boot = owner_boot), NULL),
           NULL, start, state, updated_at
    FROM run ORDER BY row;
DROP TABLE run;
ALTER TABLE run_3 RENAME TO run;
CREATE UNIQUE INDEX run_id ON run (tail, id);
CREATE INDEX run_status ON run (status) WHERE status <> 'succeeded';
CREATE INDEX run_thread ON run (thread);
CREATE INDEX run_name ON run (name) WHERE name IS NOT NULL;
CREATE UNIQUE INDEX run_live_name ON run (name)
    WHERE name IS NOT NULL AND status IN ('queued', 'running', 'waiting');
-- None of these is touched by a run without parent and plan that runs and ends: queued runs are found by their status.
CREATE INDEX run_parent ON run (parent) WHERE parent IS NOT NULL;
CREATE INDEX run_root ON run (root) WHERE root IS NOT NULL AND status IN ('queued', 'running', 'waiting');
CREATE INDEX run_held ON run (epoch) WHERE epoch IS NOT NULL AND status = 'waiting';
CREATE INDEX run_cancel ON run (epoch) WHERE cancel IS NOT NULL;
CREATE INDEX run_plan ON run (thread, plan_step) WHERE plan_step IS NOT NULL;

-- Steps of runs. `position` counts together with that of events; the hash of a run's last step is kept when it ends.
CREATE TABLE step (
    position INTEGER PRIMARY KEY,
    run      INTEGER NOT NULL REFERENCES run (row),
    seq      INTEGER NOT NULL,
    body     BLOB NOT NULL
);
CREATE UNIQUE INDEX step_run ON step (run, seq);

-- Waits of runs that have not ended. `answered` orders the answers of a run.
CREATE TABLE wait (
    row      INTEGER PRIMARY KEY,
    run      INTEGER NOT NULL REFERENCES run (row),
    position INTEGER NOT NULL,
    what     BLOB NOT NULL,
    key      TEXT,
    due      INTEGER,
    answer   BLOB,
    answered INTEGER,
    by       BLOB
);
CREATE UNIQUE INDEX wait_place ON wait (run, position);
CREATE INDEX wait_key ON wait (key, run) WHERE key IS NOT NULL AND answered IS NULL;
CREATE INDEX wait_due ON wait (due) WHERE due IS NOT NULL AND answered IS NULL;
CREATE UNIQUE INDEX wait_answered ON wait (run, answered) WHERE answered IS NOT NULL;

-- Events that were sent to a run before it waited for them.
CREATE TABLE kept (
    run   INTEGER NOT NULL REFERENCES run (row),
    seq   INTEGER NOT NULL,
    name  TEXT NOT NULL,
    value BLOB NOT NULL,
    by    BLOB NOT NULL,
    at    INTEGER NOT NULL,
    PRIMARY KEY (run, seq)
) WITHOUT ROWID;

-- Counts the changes that give an executor something to do.
ALTER TABLE progress ADD COLUMN stirs INTEGER NOT NULL DEFAULT 1;
