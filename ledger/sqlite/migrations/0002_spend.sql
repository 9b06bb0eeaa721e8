-- The book of paid calls.
--
-- An event's rowid is the number of its admission in the chain, so that events come in order and grow at the end of the table.
-- The partial indexes hold only events that wait: one that is dispatched at once costs none of them anything. Amounts are texts,
-- because SQLite's numbers would round them. Times are nanoseconds since the Unix epoch, 0 for none.
CREATE TABLE spend_chain (
  seq INTEGER PRIMARY KEY,
  body TEXT,              -- canonical JSON without entry_hash; NULL once pruned
  previous_hash TEXT,     -- once pruned; the body holds it until then
  entry_hash TEXT NOT NULL
);
CREATE TABLE spend_events (
  admission_seq INTEGER PRIMARY KEY,
  policy TEXT NOT NULL, event_id TEXT NOT NULL, capability TEXT NOT NULL,
  state TEXT NOT NULL, disposition TEXT NOT NULL, route TEXT NOT NULL, route_class TEXT NOT NULL,
  reserved TEXT NOT NULL, actual TEXT NOT NULL, version TEXT NOT NULL,
  window_start INTEGER NOT NULL, admitted_at INTEGER NOT NULL, decided_at INTEGER NOT NULL, updated_at INTEGER NOT NULL,
  day TEXT NOT NULL, deadline INTEGER NOT NULL, waiting INTEGER NOT NULL, outbox INTEGER NOT NULL,
  decision_seq INTEGER NOT NULL, last_seq INTEGER NOT NULL,
  details TEXT NOT NULL,  -- JSON: what most events do not have
  UNIQUE (policy, event_id)
);
CREATE INDEX spend_deferred ON spend_events (policy, capability, admission_seq) WHERE state = 'deferred';
CREATE INDEX spend_due ON spend_events (policy, deadline, admission_seq) WHERE deadline <> 0 AND (state = 'deferred' OR waiting <> 0);
CREATE INDEX spend_outbox ON spend_events (policy, admission_seq) WHERE outbox <> 0;
CREATE TABLE spend_counters (
  policy TEXT NOT NULL, capability TEXT NOT NULL, window_start INTEGER NOT NULL, window_end INTEGER NOT NULL,
  used TEXT NOT NULL, settled TEXT NOT NULL,
  crossed TEXT NOT NULL,  -- JSON: the bands that were reported
  PRIMARY KEY (policy, capability, window_start)
) WITHOUT ROWID;
CREATE TABLE spend_tallies (
  policy TEXT NOT NULL, day TEXT NOT NULL, capability TEXT NOT NULL, disposition TEXT NOT NULL, route_class TEXT NOT NULL,
  events INTEGER NOT NULL, reserved TEXT NOT NULL, settled TEXT NOT NULL,
  PRIMARY KEY (policy, day, capability, disposition, route_class)
) WITHOUT ROWID;
CREATE TABLE spend_status (
  policy TEXT PRIMARY KEY, active TEXT NOT NULL, active_seq INTEGER NOT NULL,
  window_start INTEGER NOT NULL, next_deadline INTEGER NOT NULL,
  deferred TEXT NOT NULL  -- JSON: events by capability
) WITHOUT ROWID;
CREATE TABLE spend_versions (
  policy TEXT NOT NULL, version TEXT NOT NULL, content TEXT NOT NULL, content_hash TEXT NOT NULL,
  record TEXT NOT NULL, published_at INTEGER NOT NULL, seq INTEGER NOT NULL,
  PRIMARY KEY (policy, version)
) WITHOUT ROWID;
