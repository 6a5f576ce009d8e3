-- Threads. `row` stands for a thread in the other tables; `tail` is the last eight characters of its id.
CREATE TABLE thread (
    row        INTEGER PRIMARY KEY,
    id         BLOB NOT NULL UNIQUE CHECK (length(id) = 16),
    tail       TEXT NOT NULL,
    key        TEXT UNIQUE,
    agent      TEXT NOT NULL,
    opened_by  TEXT NOT NULL,
    title      TEXT,
    parent     BLOB,
    cwd        TEXT,
    created_at INTEGER NOT NULL,
    updated_at INTEGER NOT NULL,
    events     INTEGER NOT NULL DEFAULT 0,
    head       BLOB NOT NULL DEFAULT (zeroblob(32))
);
CREATE INDEX thread_tail ON thread (tail);
CREATE INDEX thread_recent ON thread (updated_at, id);
CREATE INDEX thread_agent_recent ON thread (agent, updated_at, id);

-- Events. `clock` is the greatest `at` up to here, so that it never falls as `position` rises.
CREATE TABLE event (
    position INTEGER PRIMARY KEY AUTOINCREMENT,
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
CREATE UNIQUE INDEX event_thread ON event (thread, seq);
CREATE INDEX event_run ON event (run, seq) WHERE run IS NOT NULL;
CREATE INDEX event_actor ON event (actor);
CREATE INDEX event_verb ON event (verb) WHERE verb IS NOT NULL;

-- One row: how far any event's `at` lies behind `clock`, and how far the searches' words are collected.
CREATE TABLE progress (
    one            INTEGER PRIMARY KEY CHECK (one = 1),
    skew           INTEGER NOT NULL,
    events_indexed INTEGER NOT NULL,
    runs_indexed   INTEGER NOT NULL
);
INSERT INTO progress VALUES (1, 0, 0, 0);

-- Which tools are promoted in a thread: what its `promoted` events say, the last one of a tool winning.
CREATE TABLE promoted (
    thread INTEGER NOT NULL REFERENCES thread (row),
    tool   TEXT NOT NULL,
    cid    TEXT NOT NULL,
    PRIMARY KEY (thread, tool)
) WITHOUT ROWID;

-- Runs. `start` never changes; `state` is status, output, error and stored texts. Both are DAG-CBOR.
CREATE TABLE run (
    row        INTEGER PRIMARY KEY,
    id         BLOB NOT NULL UNIQUE CHECK (length(id) = 16),
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
CREATE INDEX run_tail ON run (tail);
CREATE INDEX run_status ON run (status);
CREATE INDEX run_thread ON run (thread);
CREATE INDEX run_name ON run (name) WHERE name IS NOT NULL;
CREATE UNIQUE INDEX run_live_name ON run (name)
    WHERE name IS NOT NULL AND status IN ('queued', 'running', 'waiting');

CREATE TABLE plan (
    thread INTEGER PRIMARY KEY REFERENCES thread (row),
    plan   BLOB NOT NULL
);

CREATE TABLE approval (
    row          INTEGER PRIMARY KEY,
    id           BLOB NOT NULL UNIQUE CHECK (length(id) = 16),
    tail         TEXT NOT NULL,
    thread       INTEGER NOT NULL REFERENCES thread (row),
    run          BLOB,
    actor        TEXT NOT NULL,
    agent        TEXT NOT NULL,
    act          TEXT NOT NULL,
    input_hash   TEXT NOT NULL,
    closure_hash TEXT NOT NULL,
    question     TEXT NOT NULL,
    run_at_most  INTEGER NOT NULL,
    state        TEXT NOT NULL,
    scope        TEXT,
    answered_by  TEXT,
    created_at   INTEGER NOT NULL,
    answered_at  INTEGER
);
CREATE INDEX approval_tail ON approval (tail);
CREATE INDEX approval_state ON approval (state);
CREATE UNIQUE INDEX approval_open ON approval (act, closure_hash, input_hash, actor, agent)
    WHERE state = 'open';
CREATE INDEX approval_granted ON approval (act, closure_hash, actor, agent) WHERE state = 'granted';

CREATE TABLE attachment (
    cid        TEXT PRIMARY KEY,
    name       TEXT,
    mime       TEXT NOT NULL,
    bytes      INTEGER NOT NULL,
    created_at INTEGER NOT NULL
) WITHOUT ROWID;

-- Words of events; rowid = thread row << 32 | sequence number, number 0 being the title.
CREATE VIRTUAL TABLE event_words USING fts5 (
    text, content = '', contentless_delete = 1, tokenize = 'unicode61 remove_diacritics 2'
);
-- Words of runs; rowid = run row.
CREATE VIRTUAL TABLE run_words USING fts5 (
    text, content = '', contentless_delete = 1, tokenize = 'unicode61 remove_diacritics 2'
);
