-- Sessions and their presence, wake subscriptions, what they matched, deliveries with their evidence, cursors, guards.
-- Three or more alternatives are written with OR: an IN list of that length builds a b-tree for every row it checks.

ALTER TABLE principals ADD COLUMN quiet TEXT;
ALTER TABLE principals ADD COLUMN dnd_until INTEGER;
ALTER TABLE principals ADD COLUMN pulsed_at INTEGER;

ALTER TABLE members ADD COLUMN session_id TEXT;

ALTER TABLE threads ADD COLUMN turns INTEGER NOT NULL DEFAULT 0;
ALTER TABLE threads ADD COLUMN repeats INTEGER NOT NULL DEFAULT 0;
ALTER TABLE threads ADD COLUMN last_sender TEXT;
ALTER TABLE threads ADD COLUMN last_digest TEXT;
ALTER TABLE threads ADD COLUMN flips INTEGER NOT NULL DEFAULT 0;
ALTER TABLE threads ADD COLUMN changed_by TEXT;
ALTER TABLE threads ADD COLUMN changed_from TEXT;

ALTER TABLE messages ADD COLUMN chain TEXT;
ALTER TABLE messages ADD COLUMN answer_by INTEGER;
ALTER TABLE messages ADD COLUMN awaited INTEGER NOT NULL DEFAULT 0 CHECK (awaited = 0 OR answer_by IS NOT NULL);
CREATE INDEX messages_awaited ON messages (answer_by) WHERE awaited = 1;

-- What a principal last took up: the message that its next one is taken to come from.
CREATE TABLE causes (
  workspace_id INTEGER NOT NULL,
  handle TEXT NOT NULL,
  session_id TEXT NOT NULL,
  message_id TEXT NOT NULL,
  thread_id TEXT NOT NULL,
  chain TEXT,
  taken_at INTEGER NOT NULL,
  PRIMARY KEY (workspace_id, handle, session_id)
) STRICT, WITHOUT ROWID;

-- Who waits for whose answer, so that a circle of waits is refused on every node.
CREATE TABLE waits (
  workspace_id INTEGER NOT NULL,
  message_id TEXT NOT NULL,
  asker TEXT NOT NULL,
  asked TEXT NOT NULL,
  until INTEGER NOT NULL,
  PRIMARY KEY (workspace_id, message_id)
) STRICT, WITHOUT ROWID;

CREATE TABLE sessions (
  session_id TEXT NOT NULL PRIMARY KEY,
  workspace_id INTEGER NOT NULL,
  handle TEXT NOT NULL,
  harness TEXT NOT NULL,
  native_id TEXT,
  host TEXT,
  cwd TEXT,
  pid INTEGER,
  pid_started_at INTEGER,
  wake_mode TEXT NOT NULL,
  replyable INTEGER NOT NULL CHECK (replyable IN (0, 1)),
  capabilities TEXT NOT NULL,
  levels TEXT NOT NULL,
  presence TEXT NOT NULL CHECK (
    presence = 'unknown' OR presence = 'idle' OR presence = 'active' OR presence = 'waitingOnApproval'
    OR presence = 'userTyping'),
  active_turn_id TEXT,
  presence_source TEXT NOT NULL,
  presence_at INTEGER NOT NULL,
  context_tokens INTEGER,
  context_limit INTEGER,
  resumable INTEGER NOT NULL CHECK (resumable IN (0, 1)),
  task_id TEXT,
  branch TEXT,
  started_at INTEGER NOT NULL,
  heartbeat_at INTEGER NOT NULL,
  ended_at INTEGER
) STRICT, WITHOUT ROWID;
CREATE INDEX sessions_by_handle ON sessions (workspace_id, handle, heartbeat_at);

CREATE TABLE subscriptions (
  subscription_id TEXT NOT NULL PRIMARY KEY,
  workspace_id INTEGER NOT NULL,
  handle TEXT NOT NULL,
  trigger TEXT NOT NULL,
  filters TEXT NOT NULL,
  route_key TEXT NOT NULL,
  target TEXT NOT NULL CHECK (
    target = 'mcp-notifications' OR target = 'a2a-webhook' OR target = 'bridge-daemon' OR target = 'disabled'
    OR target = 'none'),
  url TEXT,
  coalesce_window INTEGER CHECK (coalesce_window BETWEEN 0 AND 300),
  metadata TEXT NOT NULL,
  wake_policy TEXT NOT NULL CHECK (wake_policy = 'silent' OR wake_policy = 'next_turn' OR wake_policy = 'immediate'),
  signing_key TEXT,
  previous_key TEXT,
  previous_key_until INTEGER,
  status TEXT NOT NULL CHECK (status = 'active' OR status = 'degraded' OR status = 'retired'),
  status_reason TEXT,
  failures INTEGER NOT NULL,
  from_log_id INTEGER NOT NULL,
  created_at INTEGER NOT NULL,
  updated_at INTEGER NOT NULL,
  rung_at INTEGER,
  first_queued_at INTEGER,
  flush_at INTEGER,
  events INTEGER NOT NULL,
  rings INTEGER NOT NULL,
  coalesced INTEGER NOT NULL,
  window_used INTEGER NOT NULL,
  latency_total INTEGER NOT NULL,
  latency_most INTEGER NOT NULL,
  CHECK (target <> 'a2a-webhook' OR (url IS NOT NULL AND signing_key IS NOT NULL)),
  CHECK (status <> 'retired' OR flush_at IS NULL)
) STRICT, WITHOUT ROWID;
CREATE UNIQUE INDEX subscriptions_by_route ON subscriptions (workspace_id, route_key) WHERE status <> 'retired';
CREATE INDEX subscriptions_by_handle ON subscriptions (workspace_id, handle, subscription_id);
CREATE INDEX subscriptions_due ON subscriptions (flush_at) WHERE flush_at IS NOT NULL;

-- The matcher's index: the most telling filter of each subscription, one row for each of its words.
CREATE TABLE subscription_keys (
  workspace_id INTEGER NOT NULL,
  handle TEXT NOT NULL,
  trigger TEXT NOT NULL,
  key TEXT NOT NULL,
  subscription_id TEXT NOT NULL,
  active INTEGER NOT NULL CHECK (active IN (0, 1)),
  PRIMARY KEY (workspace_id, handle, trigger, key, subscription_id)
) STRICT, WITHOUT ROWID;

-- One matched event of one subscription, from the match until it is rung or needs no ring any more.
CREATE TABLE wakes (
  subscription_id TEXT NOT NULL,
  log_id INTEGER NOT NULL,
  workspace_id INTEGER NOT NULL,
  handle TEXT NOT NULL,
  session_id TEXT,
  addressed INTEGER NOT NULL CHECK (addressed IN (0, 1)),
  event_type TEXT NOT NULL,
  policy TEXT NOT NULL,
  message_id TEXT,
  thread_id TEXT,
  seq INTEGER,
  payload TEXT NOT NULL,
  occurred_at INTEGER NOT NULL,
  state TEXT NOT NULL CHECK (
    state = 'waiting' OR state = 'held' OR state = 'next_turn' OR state = 'ringing' OR state = 'rung'
    OR state = 'dropped'),
  reason TEXT,
  until INTEGER,
  delivery_id TEXT,
  updated_at INTEGER NOT NULL,
  PRIMARY KEY (subscription_id, log_id)
) STRICT, WITHOUT ROWID;
CREATE INDEX wakes_open ON wakes (subscription_id, log_id) WHERE state = 'waiting' OR state = 'held';
CREATE INDEX wakes_held ON wakes (thread_id) WHERE state = 'held' AND thread_id IS NOT NULL;
CREATE INDEX wakes_over ON wakes (updated_at) WHERE state = 'rung' OR state = 'dropped' OR state = 'next_turn';
CREATE INDEX wakes_by_delivery ON wakes (delivery_id) WHERE delivery_id IS NOT NULL;
CREATE INDEX wakes_by_message ON wakes (message_id) WHERE message_id IS NOT NULL;

CREATE TABLE deliveries (
  delivery_id TEXT NOT NULL PRIMARY KEY,
  workspace_id INTEGER NOT NULL,
  subscription_id TEXT NOT NULL,
  handle TEXT NOT NULL,
  session_id TEXT,
  target TEXT NOT NULL,
  event_id TEXT NOT NULL,
  event_type TEXT NOT NULL,
  log_id INTEGER NOT NULL,
  events INTEGER NOT NULL CHECK (events > 0),
  body TEXT NOT NULL,
  replay INTEGER NOT NULL CHECK (replay IN (0, 1)),
  step TEXT NOT NULL CHECK (
    step = 'queued' OR step = 'triggered' OR step = 'woke' OR step = 'injected' OR step = 'processed'
    OR step = 'replied'),
  outcome TEXT CHECK (
    outcome = 'delivered' OR outcome = 'skipped' OR outcome = 'failed' OR outcome = 'unknown'),
  reason TEXT,
  attempts INTEGER NOT NULL,
  next_attempt_at INTEGER,
  lease_owner TEXT,
  lease_until INTEGER,
  fence INTEGER NOT NULL,
  steps INTEGER NOT NULL,
  occurred_at INTEGER NOT NULL,
  created_at INTEGER NOT NULL,
  settled_at INTEGER,
  CHECK ((outcome IS NULL) = (settled_at IS NULL)),
  CHECK (outcome IS NULL OR next_attempt_at IS NULL)
) STRICT;
CREATE INDEX deliveries_due ON deliveries (target, next_attempt_at) WHERE next_attempt_at IS NOT NULL;
CREATE INDEX deliveries_open ON deliveries (subscription_id) WHERE outcome IS NULL;
CREATE INDEX deliveries_by_workspace ON deliveries (workspace_id, delivery_id);
CREATE INDEX deliveries_by_handle ON deliveries (workspace_id, handle, delivery_id);
CREATE INDEX deliveries_settled ON deliveries (settled_at) WHERE settled_at IS NOT NULL;
CREATE INDEX deliveries_by_session ON deliveries (session_id) WHERE outcome IS NULL AND session_id IS NOT NULL;

-- What happened to a delivery, step by step: rows are added, never changed.
CREATE TABLE delivery_steps (
  delivery_id TEXT NOT NULL,
  number INTEGER NOT NULL,
  workspace_id INTEGER NOT NULL,
  at INTEGER NOT NULL,
  step TEXT NOT NULL,
  attempt INTEGER NOT NULL,
  detail TEXT,
  PRIMARY KEY (delivery_id, number)
) STRICT, WITHOUT ROWID;

CREATE TABLE cursors (
  workspace_id INTEGER NOT NULL,
  consumer_id TEXT NOT NULL,
  stream_name TEXT NOT NULL,
  subject_id TEXT NOT NULL,
  last_sequence INTEGER NOT NULL CHECK (last_sequence >= 0),
  last_delivery_id TEXT,
  last_delivered_at INTEGER,
  last_error TEXT,
  updated_at INTEGER NOT NULL,
  PRIMARY KEY (workspace_id, consumer_id, stream_name, subject_id)
) STRICT, WITHOUT ROWID;
CREATE INDEX cursors_by_stream ON cursors (workspace_id, stream_name, last_sequence) WHERE last_sequence > 0;
