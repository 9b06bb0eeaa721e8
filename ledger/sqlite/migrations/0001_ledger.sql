-- What the ledger keeps (version 1). Instants are nanoseconds since the Unix epoch, as integers: text would compare as text,
-- and "2026-06-10T11:00" lies after "2026-06-10 11:30" then. Every instant comes from the program, none from SQL.

PRAGMA application_id = 1413566553; -- "TAPY"

CREATE TABLE counters (
    provider           TEXT    NOT NULL,
    "limit"            TEXT    NOT NULL,
    scope_key          TEXT    NOT NULL,
    window_start       INTEGER NOT NULL,
    window_end         INTEGER NOT NULL,
    used               INTEGER NOT NULL, -- the lease included
    lease              INTEGER NOT NULL DEFAULT 0, -- units written ahead, for use until the next flush
    observed_remaining INTEGER,
    observed_max       INTEGER,
    observed_used      INTEGER,
    updated_at         INTEGER NOT NULL,
    PRIMARY KEY (provider, "limit", scope_key, window_start)
) WITHOUT ROWID;

-- Rolling windows and timelines: a cell is a minute, or an hour for windows longer than a day.
CREATE TABLE minutes (
    provider  TEXT    NOT NULL,
    "limit"   TEXT    NOT NULL,
    scope_key TEXT    NOT NULL,
    minute    INTEGER NOT NULL,
    used      INTEGER NOT NULL,
    lease     INTEGER NOT NULL DEFAULT 0,
    PRIMARY KEY (provider, "limit", scope_key, minute)
) WITHOUT ROWID;

-- Penalties, breakers, learned maxima: in the engine's own notation.
CREATE TABLE states (
    kind       TEXT    NOT NULL,
    name       TEXT    NOT NULL,
    key        TEXT    NOT NULL,
    value      BLOB    NOT NULL,
    expires_at INTEGER NOT NULL, -- 0: never
    PRIMARY KEY (kind, name, key)
) WITHOUT ROWID;

-- The part of a journal row that repeats is kept once.
CREATE TABLE requests (
    ref        INTEGER PRIMARY KEY,
    provider   TEXT    NOT NULL,
    account    TEXT    NOT NULL,
    target     TEXT    NOT NULL,
    credential TEXT    NOT NULL,
    method     TEXT    NOT NULL,
    endpoint   TEXT    NOT NULL,
    vars       TEXT    NOT NULL, -- JSON, sorted
    job        TEXT    NOT NULL,
    priority   TEXT    NOT NULL,
    retry      INTEGER NOT NULL,
    auth       INTEGER NOT NULL,
    UNIQUE (provider, account, endpoint, vars, job, method, priority, retry, auth, target, credential)
);

CREATE TABLE origins (
    ref      INTEGER PRIMARY KEY,
    provider TEXT NOT NULL,
    account  TEXT NOT NULL,
    UNIQUE (provider, account)
);

CREATE TABLE journal (
    seq        INTEGER PRIMARY KEY,
    at         INTEGER NOT NULL,
    request    INTEGER NOT NULL REFERENCES requests (ref),
    origin     INTEGER NOT NULL REFERENCES origins (ref),
    id         TEXT    NOT NULL,
    status     INTEGER NOT NULL,
    latency    INTEGER NOT NULL, -- nanoseconds
    headers    TEXT    NOT NULL, -- JSON, sorted
    refused    TEXT    NOT NULL,
    body       TEXT    NOT NULL
);
CREATE INDEX journal_at ON journal (at);
CREATE UNIQUE INDEX journal_id ON journal (id, origin) WHERE id <> '';

-- For people with a SQLite shell.
CREATE VIEW journal_rows AS
SELECT strftime('%Y-%m-%dT%H:%M:%fZ', j.at / 1e9, 'unixepoch') AS ts, j.id, r.provider, r.account, r.target, r.credential, r.method,
       r.endpoint, r.vars, r.job, r.priority, r.retry, r.auth, j.status, j.headers, j.latency / 1e6 AS latencyMs, j.refused, j.body
FROM journal j JOIN requests r ON r.ref = j.request;

CREATE TABLE inventories (
    job      TEXT    NOT NULL,
    instance TEXT    NOT NULL,
    at       INTEGER NOT NULL,
    items    TEXT    NOT NULL, -- JSON: a list of objects of texts
    PRIMARY KEY (job, instance)
) WITHOUT ROWID;

CREATE TABLE runs (
    job      TEXT    NOT NULL,
    instance TEXT    NOT NULL,
    started  INTEGER NOT NULL,
    account  TEXT    NOT NULL,
    duration INTEGER NOT NULL, -- nanoseconds
    pages    INTEGER NOT NULL,
    requests INTEGER NOT NULL,
    items    INTEGER NOT NULL,
    status   TEXT    NOT NULL,
    error    TEXT    NOT NULL,
    PRIMARY KEY (job, instance, started)
) WITHOUT ROWID;
CREATE INDEX runs_started ON runs (started);

CREATE TABLE secrets (
    name  TEXT PRIMARY KEY,
    value BLOB NOT NULL
) WITHOUT ROWID;
