-- Sessions and their presence, wake subscriptions, what they matched, deliveries with their evidence, cursors, guards.
-- The twin of SQLite's.  fillfactor: rows that change often find room for their next version on their own page.

ALTER TABLE principals ADD COLUMN quiet TEXT COLLATE "C";
ALTER TABLE principals ADD COLUMN dnd_until BIGINT;
ALTER TABLE principals ADD COLUMN pulsed_at BIGINT;

ALTER TABLE members ADD COLUMN session_id TEXT COLLATE "C";

ALTER TABLE threads ADD COLUMN turns BIGINT NOT NULL DEFAULT 0;
ALTER TABLE threads ADD COLUMN repeats BIGINT NOT NULL DEFAULT 0;
ALTER TABLE threads ADD COLUMN last_sender TEXT COLLATE "C";
ALTER TABLE threads ADD COLUMN last_digest TEXT COLLATE "C";
ALTER TABLE threads ADD COLUMN flips BIGINT NOT NULL DEFAULT 0;
ALTER TABLE threads ADD COLUMN changed_by TEXT COLLATE "C";
ALTER TABLE threads ADD COLUMN changed_from TEXT COLLATE "C";

ALTER TABLE messages ADD COLUMN chain TEXT COLLATE "C";
ALTER TABLE messages ADD COLUMN answer_by BIGINT;
ALTER TABLE messages ADD COLUMN awaited BIGINT NOT NULL DEFAULT 0 CHECK (awaited = 0 OR answer_by IS NOT NULL);
CREATE INDEX messages_awaited ON messages (answer_by) WHERE awaited = 1;

-- What a principal last took up: the message that its next one is taken to come from.
CREATE TABLE causes (
  workspace_id BIGINT NOT NULL,
  handle TEXT COLLATE "C" NOT NULL,
  session_id TEXT COLLATE "C" NOT NULL,
  message_id TEXT COLLATE "C" NOT NULL,
  thread_id TEXT COLLATE "C" NOT NULL,
  chain TEXT COLLATE "C",
  taken_at BIGINT NOT NULL,
  PRIMARY KEY (workspace_id, handle, session_id)
);

-- Who waits for whose answer, so that a circle of waits is refused on every node.
CREATE TABLE waits (
  workspace_id BIGINT NOT NULL,
  message_id TEXT COLLATE "C" NOT NULL,
  asker TEXT COLLATE "C" NOT NULL,
  asked TEXT COLLATE "C" NOT NULL,
  until BIGINT NOT NULL,
  PRIMARY KEY (workspace_id, message_id)
);

CREATE TABLE sessions (
  session_id TEXT COLLATE "C" NOT NULL PRIMARY KEY,
  workspace_id BIGINT NOT NULL,
  handle TEXT COLLATE "C" NOT NULL,
  harness TEXT COLLATE "C" NOT NULL,
  native_id TEXT COLLATE "C",
  host TEXT COLLATE "C",
  cwd TEXT COLLATE "C",
  pid BIGINT,
  pid_started_at BIGINT,
  wake_mode TEXT COLLATE "C" NOT NULL,
  replyable BIGINT NOT NULL CHECK (replyable IN (0, 1)),
  capabilities TEXT COLLATE "C" NOT NULL,
  levels TEXT COLLATE "C" NOT NULL,
  presence TEXT COLLATE "C" NOT NULL CHECK (
    presence = 'unknown' OR presence = 'idle' OR presence = 'active' OR presence = 'waitingOnApproval'
    OR presence = 'userTyping'),
  active_turn_id TEXT COLLATE "C",
  presence_source TEXT COLLATE "C" NOT NULL,
  presence_at BIGINT NOT NULL,
  context_tokens BIGINT,
  context_limit BIGINT,
  resumable BIGINT NOT NULL CHECK (resumable IN (0, 1)),
  task_id TEXT COLLATE "C",
  branch TEXT COLLATE "C",
  started_at BIGINT NOT NULL,
  heartbeat_at BIGINT NOT NULL,
  ended_at BIGINT
) WITH (fillfactor = 60);
CREATE INDEX sessions_by_handle ON sessions (workspace_id, handle, heartbeat_at);

CREATE TABLE subscriptions (
  subscription_id TEXT COLLATE "C" NOT NULL PRIMARY KEY,
  workspace_id BIGINT NOT NULL,
  handle TEXT COLLATE "C" NOT NULL,
  trigger TEXT COLLATE "C" NOT NULL,
  filters TEXT COLLATE "C" NOT NULL,
  route_key TEXT COLLATE "C" NOT NULL,
  target TEXT COLLATE "C" NOT NULL CHECK (
    target = 'mcp-notifications' OR target = 'a2a-webhook' OR target = 'bridge-daemon' OR target = 'disabled'
    OR target = 'none'),
  url TEXT COLLATE "C",
  coalesce_window BIGINT CHECK (coalesce_window BETWEEN 0 AND 300),
  metadata TEXT COLLATE "C" NOT NULL,
  wake_policy TEXT COLLATE "C" NOT NULL CHECK (wake_policy = 'silent' OR wake_policy = 'next_turn' OR wake_policy = 'immediate'),
  signing_key TEXT COLLATE "C",
  previous_key TEXT COLLATE "C",
  previous_key_until BIGINT,
  status TEXT COLLATE "C" NOT NULL CHECK (status = 'active' OR status = 'degraded' OR status = 'retired'),
  status_reason TEXT COLLATE "C",
  failures BIGINT NOT NULL,
  from_log_id BIGINT NOT NULL,
  created_at BIGINT NOT NULL,
  updated_at BIGINT NOT NULL,
  rung_at BIGINT,
  first_queued_at BIGINT,
  flush_at BIGINT,
  events BIGINT NOT NULL,
  rings BIGINT NOT NULL,
  coalesced BIGINT NOT NULL,
  window_used BIGINT NOT NULL,
  latency_total BIGINT NOT NULL,
  latency_most BIGINT NOT NULL,
  CHECK (target <> 'a2a-webhook' OR (url IS NOT NULL AND signing_key IS NOT NULL)),
  CHECK (status <> 'retired' OR flush_at IS NULL)
) WITH (fillfactor = 60);
CREATE UNIQUE INDEX subscriptions_by_route ON subscriptions (workspace_id, route_key) WHERE status <> 'retired';
CREATE INDEX subscriptions_by_handle ON subscriptions (workspace_id, handle, subscription_id);
CREATE INDEX subscriptions_due ON subscriptions (flush_at) WHERE flush_at IS NOT NULL;

-- The matcher's index: the most telling filter of each subscription, one row for each of its words.
CREATE TABLE subscription_keys (
  workspace_id BIGINT NOT NULL,
  handle TEXT COLLATE "C" NOT NULL,
  trigger TEXT COLLATE "C" NOT NULL,
  key TEXT COLLATE "C" NOT NULL,
  subscription_id TEXT COLLATE "C" NOT NULL,
  active BIGINT NOT NULL CHECK (active IN (0, 1)),
  PRIMARY KEY (workspace_id, handle, trigger, key, subscription_id)
);

-- One matched event of one subscription, from the match until it is rung or needs no ring any more.
CREATE TABLE wakes (
  subscription_id TEXT COLLATE "C" NOT NULL,
  log_id BIGINT NOT NULL,
  workspace_id BIGINT NOT NULL,
  handle TEXT COLLATE "C" NOT NULL,
  session_id TEXT COLLATE "C",
  addressed BIGINT NOT NULL CHECK (addressed IN (0, 1)),
  event_type TEXT COLLATE "C" NOT NULL,
  policy TEXT COLLATE "C" NOT NULL,
  message_id TEXT COLLATE "C",
  thread_id TEXT COLLATE "C",
  seq BIGINT,
  payload TEXT COLLATE "C" NOT NULL,
  occurred_at BIGINT NOT NULL,
  state TEXT COLLATE "C" NOT NULL CHECK (
    state = 'waiting' OR state = 'held' OR state = 'next_turn' OR state = 'ringing' OR state = 'rung'
    OR state = 'dropped'),
  reason TEXT COLLATE "C",
  until BIGINT,
  delivery_id TEXT COLLATE "C",
  updated_at BIGINT NOT NULL,
  PRIMARY KEY (subscription_id, log_id)
) WITH (fillfactor = 60);
CREATE INDEX wakes_open ON wakes (subscription_id, log_id) WHERE state = 'waiting' OR state = 'held';
CREATE INDEX wakes_held ON wakes (thread_id) WHERE state = 'held' AND thread_id IS NOT NULL;
CREATE INDEX wakes_over ON wakes (updated_at) WHERE state = 'rung' OR state = 'dropped' OR state = 'next_turn';
CREATE INDEX wakes_by_delivery ON wakes (delivery_id) WHERE delivery_id IS NOT NULL;
CREATE INDEX wakes_by_message ON wakes (message_id) WHERE message_id IS NOT NULL;

CREATE TABLE deliveries (
  delivery_id TEXT COLLATE "C" NOT NULL PRIMARY KEY,
  workspace_id BIGINT NOT NULL,
  subscription_id TEXT COLLATE "C" NOT NULL,
  handle TEXT COLLATE "C" NOT NULL,
  session_id TEXT COLLATE "C",
  target TEXT COLLATE "C" NOT NULL,
  event_id TEXT COLLATE "C" NOT NULL,
  event_type TEXT COLLATE "C" NOT NULL,
  log_id BIGINT NOT NULL,
  events BIGINT NOT NULL CHECK (events > 0),
  body TEXT COLLATE "C" NOT NULL,
  replay BIGINT NOT NULL CHECK (replay IN (0, 1)),
  step TEXT COLLATE "C" NOT NULL CHECK (
    step = 'queued' OR step = 'triggered' OR step = 'woke' OR step = 'injected' OR step = 'processed'
    OR step = 'replied'),
  outcome TEXT COLLATE "C" CHECK (
    outcome = 'delivered' OR outcome = 'skipped' OR outcome = 'failed' OR outcome = 'unknown'),
  reason TEXT COLLATE "C",
  attempts BIGINT NOT NULL,
  next_attempt_at BIGINT,
  lease_owner TEXT COLLATE "C",
  lease_until BIGINT,
  fence BIGINT NOT NULL,
  steps BIGINT NOT NULL,
  occurred_at BIGINT NOT NULL,
  created_at BIGINT NOT NULL,
  settled_at BIGINT,
  CHECK ((outcome IS NULL) = (settled_at IS NULL)),
  CHECK (outcome IS NULL OR next_attempt_at IS NULL)
) WITH (fillfactor = 60);
CREATE INDEX deliveries_due ON deliveries (target, next_attempt_at) WHERE next_attempt_at IS NOT NULL;
CREATE INDEX deliveries_open ON deliveries (subscription_id) WHERE outcome IS NULL;
CREATE INDEX deliveries_by_workspace ON deliveries (workspace_id, delivery_id);
CREATE INDEX deliveries_by_handle ON deliveries (workspace_id, handle, delivery_id);
CREATE INDEX deliveries_settled ON deliveries (settled_at) WHERE settled_at IS NOT NULL;
CREATE INDEX deliveries_by_session ON deliveries (session_id) WHERE outcome IS NULL AND session_id IS NOT NULL;

-- What happened to a delivery, step by step: rows are added, never changed.
CREATE TABLE delivery_steps (
  delivery_id TEXT COLLATE "C" NOT NULL,
  number BIGINT NOT NULL,
  workspace_id BIGINT NOT NULL,
  at BIGINT NOT NULL,
  step TEXT COLLATE "C" NOT NULL,
  attempt BIGINT NOT NULL,
  detail TEXT COLLATE "C",
  PRIMARY KEY (delivery_id, number)
);

CREATE TABLE cursors (
  workspace_id BIGINT NOT NULL,
  consumer_id TEXT COLLATE "C" NOT NULL,
  stream_name TEXT COLLATE "C" NOT NULL,
  subject_id TEXT COLLATE "C" NOT NULL,
  last_sequence BIGINT NOT NULL CHECK (last_sequence >= 0),
  last_delivery_id TEXT COLLATE "C",
  last_delivered_at BIGINT,
  last_error TEXT COLLATE "C",
  updated_at BIGINT NOT NULL,
  PRIMARY KEY (workspace_id, consumer_id, stream_name, subject_id)
);
CREATE INDEX cursors_by_stream ON cursors (workspace_id, stream_name, last_sequence) WHERE last_sequence > 0;
