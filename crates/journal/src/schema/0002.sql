-- Each index is a page that every event or run writes: what another one answers as well goes.

-- Threads of an agent are found on the way through all of them, without leaving the index.
DROP INDEX thread_agent_recent;
DROP INDEX thread_recent;
CREATE INDEX thread_recent ON thread (updated_at, id, agent);

-- No event is ever deleted, so the greatest position is the last one given and needs no counter.
CREATE TABLE event_2 (
    position INTEGER PRIMARY KEY,
    thread   INTEGER NOT NULL REFERENCES thread (row),
    seq      INTEGER NOT NULL,
    at       INTEGER NOT NULL,
    clock    INTEGER NOT NULL,
    actor    TEXT NOT NULL,
    kind     TEXT NOT NULL,
    verb     TEXT,
    call     BLOB,
    run      BLOB,
    hash     BLOB NOT NULL,
    body     BLOB NOT NULL
);
INSERT INTO event_2 SELECT * FROM event ORDER BY position;
DROP TABLE event;
ALTER TABLE event_2 RENAME TO event;
CREATE UNIQUE INDEX event_thread ON event (thread, seq);
CREATE INDEX event_run ON event (run, seq) WHERE run IS NOT NULL;
CREATE INDEX event_actor ON event (actor);
CREATE INDEX event_verb ON event (verb) WHERE verb IS NOT NULL;

-- A run is found by the ending of its id, by its whole id too; by status where it is not one of the many that succeeded.
CREATE TABLE run_2 (
    row        INTEGER PRIMARY KEY,
    id         BLOB NOT NULL CHECK (length(id) = 16),
    tail       TEXT NOT NULL,
    thread     INTEGER NOT NULL REFERENCES thread (row),
    name       TEXT,
    status     TEXT NOT NULL,
    start      BLOB NOT NULL,
    state      BLOB NOT NULL,
    updated_at INTEGER NOT NULL,
    owner_pid  INTEGER NOT NULL,
    owner_born INTEGER NOT NULL,
    owner_boot TEXT NOT NULL
);
INSERT INTO run_2 SELECT * FROM run ORDER BY row;
DROP TABLE run;
ALTER TABLE run_2 RENAME TO run;
CREATE UNIQUE INDEX run_id ON run (tail, id);
CREATE INDEX run_status ON run (status) WHERE status <> 'succeeded';
CREATE INDEX run_thread ON run (thread);
CREATE INDEX run_name ON run (name) WHERE name IS NOT NULL;
CREATE UNIQUE INDEX run_live_name ON run (name)
    WHERE name IS NOT NULL AND status IN ('queued', 'running', 'waiting');
