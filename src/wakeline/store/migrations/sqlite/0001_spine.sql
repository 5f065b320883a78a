-- One durable log per workspace, threads and messages, receipts, identity and policy.
-- Instants are microseconds since 1970 (UTC); JSON and lists are text.  The PostgreSQL twin has the same tables.
-- CHECK (x = 'a' OR x = 'b'), not IN: for three or more values SQLite would build a table of them for every row.

CREATE TABLE workspaces (
  workspace_id INTEGER PRIMARY KEY,
  name TEXT NOT NULL UNIQUE,
  epoch TEXT NOT NULL,
  version INTEGER NOT NULL,
  last_log_id INTEGER NOT NULL,
  first_log_id INTEGER NOT NULL,
  created_at INTEGER NOT NULL,
  CHECK (first_log_id <= last_log_id + 1)
) STRICT;

CREATE TABLE log (
  workspace_id INTEGER NOT NULL,
  log_id INTEGER NOT NULL CHECK (log_id > 0),
  kind TEXT NOT NULL,
  stream TEXT NOT NULL,
  stream_seq INTEGER NOT NULL,
  actor TEXT NOT NULL,
  subject TEXT,
  data TEXT,
  created_at INTEGER NOT NULL,
  PRIMARY KEY (workspace_id, log_id)
) STRICT, WITHOUT ROWID;

CREATE TABLE principals (
  workspace_id INTEGER NOT NULL,
  handle TEXT NOT NULL CHECK (handle LIKE '@_%'),
  kind TEXT NOT NULL CHECK (kind = 'agent' OR kind = 'human' OR kind = 'system'),
  roles TEXT NOT NULL,
  display_name TEXT,
  created_at INTEGER NOT NULL,
  created_by TEXT NOT NULL,
  retired_at INTEGER,
  PRIMARY KEY (workspace_id, handle)
) STRICT, WITHOUT ROWID;

CREATE TABLE role_holders (
  workspace_id INTEGER NOT NULL,
  role TEXT NOT NULL,
  handle TEXT NOT NULL,
  PRIMARY KEY (workspace_id, role, handle)
) STRICT, WITHOUT ROWID;

CREATE TABLE threads (
  thread_id TEXT NOT NULL PRIMARY KEY,
  workspace_id INTEGER NOT NULL,
  type TEXT NOT NULL CHECK (type = 'conversation' OR type = 'workflow' OR type = 'incident'),
  status TEXT NOT NULL CHECK (status = 'active' OR status = 'blocked' OR status = 'resolved' OR status = 'closed'),
  title TEXT NOT NULL,
  audience_key TEXT,
  created_by TEXT NOT NULL,
  coordinator TEXT,
  escalation_owner TEXT,
  last_seq INTEGER NOT NULL,
  created_at INTEGER NOT NULL,
  updated_at INTEGER NOT NULL,
  closed_at INTEGER,
  CHECK ((status = 'closed') = (closed_at IS NOT NULL)),
  CHECK (escalation_owner IS NULL OR status = 'blocked')
) STRICT, WITHOUT ROWID;
CREATE UNIQUE INDEX threads_by_audience ON threads (workspace_id, audience_key) WHERE audience_key IS NOT NULL;
CREATE INDEX threads_by_workspace ON threads (workspace_id, thread_id);
CREATE INDEX threads_working ON threads (workspace_id, thread_id) WHERE type = 'workflow' AND status = 'active';
CREATE INDEX threads_closed ON threads (workspace_id, closed_at) WHERE status = 'closed';

CREATE TABLE members (
  thread_id TEXT NOT NULL,
  handle TEXT NOT NULL,
  workspace_id INTEGER NOT NULL,
  joined_at INTEGER NOT NULL,
  joined_seq INTEGER NOT NULL,
  last_read_seq INTEGER NOT NULL,
  left_at INTEGER,
  PRIMARY KEY (thread_id, handle)
) STRICT, WITHOUT ROWID;
CREATE INDEX members_by_handle ON members (workspace_id, handle, thread_id);

-- A rowid table: rows of this size in key order would move whole pages about (measured at half the speed).
CREATE TABLE messages (
  number INTEGER PRIMARY KEY AUTOINCREMENT,
  message_id TEXT NOT NULL UNIQUE,
  workspace_id INTEGER NOT NULL,
  thread_id TEXT NOT NULL,
  seq INTEGER NOT NULL CHECK (seq > 0),
  log_id INTEGER NOT NULL,
  sender TEXT NOT NULL,
  session_id TEXT,
  kind TEXT NOT NULL CHECK (kind = 'chat' OR kind = 'event' OR kind = 'system'),
  subject TEXT,
  body TEXT NOT NULL,
  recipients TEXT NOT NULL,
  priority TEXT NOT NULL CHECK (priority = 'high' OR priority = 'normal' OR priority = 'low'),
  wake_policy TEXT NOT NULL CHECK (wake_policy = 'silent' OR wake_policy = 'next_turn' OR wake_policy = 'immediate'),
  tags TEXT NOT NULL,
  in_reply_to TEXT,
  idempotency_key TEXT,
  expires_at INTEGER,
  supersedes TEXT,
  metadata TEXT,
  schema_version INTEGER NOT NULL,
  created_at INTEGER NOT NULL,
  superseded_by TEXT,
  retracted_at INTEGER
) STRICT;
CREATE UNIQUE INDEX messages_by_thread ON messages (thread_id, seq);
CREATE INDEX messages_by_reply ON messages (in_reply_to, log_id) WHERE in_reply_to IS NOT NULL;

CREATE TABLE receipts (
  thread_id TEXT NOT NULL,
  seq INTEGER NOT NULL,
  recipient TEXT NOT NULL,
  workspace_id INTEGER NOT NULL,
  log_id INTEGER NOT NULL,
  rank INTEGER NOT NULL CHECK (rank BETWEEN 0 AND 2),
  expires_at INTEGER,
  box INTEGER NOT NULL CHECK (box BETWEEN 0 AND 3),
  seen_at INTEGER,
  read_at INTEGER,
  archived_at INTEGER,
  lapsed TEXT CHECK (lapsed = 'expired' OR lapsed = 'retracted' OR lapsed = 'superseded'),
  PRIMARY KEY (thread_id, seq, recipient),
  CHECK (read_at IS NULL OR seen_at IS NOT NULL),
  CHECK (box <> 0 OR read_at IS NULL)
) STRICT, WITHOUT ROWID;
CREATE INDEX receipts_by_box ON receipts (workspace_id, recipient, box, rank, log_id, expires_at);
CREATE INDEX receipts_expiring ON receipts (expires_at) WHERE box = 0 AND expires_at IS NOT NULL;

CREATE TABLE idempotency (
  workspace_id INTEGER NOT NULL,
  sender TEXT NOT NULL,
  operation TEXT NOT NULL,
  key TEXT NOT NULL,
  payload_hash TEXT NOT NULL,
  subject TEXT NOT NULL,
  answer TEXT NOT NULL,
  created_at INTEGER NOT NULL,
  PRIMARY KEY (workspace_id, sender, operation, key)
) STRICT, WITHOUT ROWID;

CREATE TABLE grants (
  workspace_id INTEGER NOT NULL,
  scope TEXT NOT NULL,
  grantee TEXT NOT NULL,
  owner TEXT NOT NULL,
  granted_by TEXT NOT NULL,
  created_at INTEGER NOT NULL,
  revoked_at INTEGER,
  PRIMARY KEY (workspace_id, grantee, scope, owner)
) STRICT, WITHOUT ROWID;

CREATE TABLE blocks (
  workspace_id INTEGER NOT NULL,
  blocker TEXT NOT NULL,
  blocked TEXT NOT NULL,
  created_by TEXT NOT NULL,
  created_at INTEGER NOT NULL,
  lifted_at INTEGER,
  PRIMARY KEY (workspace_id, blocked, blocker)
) STRICT, WITHOUT ROWID;

CREATE TABLE buckets (
  workspace_id INTEGER NOT NULL,
  sender TEXT NOT NULL,
  level INTEGER NOT NULL,
  counted_at INTEGER NOT NULL,
  PRIMARY KEY (workspace_id, sender)
) STRICT, WITHOUT ROWID;

CREATE TABLE tokens (
  jti TEXT NOT NULL PRIMARY KEY,
  workspace_id INTEGER NOT NULL,
  handle TEXT NOT NULL,
  role TEXT NOT NULL,
  session_id TEXT,
  note TEXT,
  issued_at INTEGER NOT NULL,
  issued_by TEXT NOT NULL,
  expires_at INTEGER NOT NULL,
  revoked_at INTEGER
) STRICT, WITHOUT ROWID;
CREATE INDEX tokens_by_handle ON tokens (workspace_id, handle, issued_at);

CREATE TABLE issuer_keys (
  kid TEXT NOT NULL PRIMARY KEY,
  public_key TEXT NOT NULL,
  private_key TEXT NOT NULL,
  created_at INTEGER NOT NULL,
  retired_at INTEGER
) STRICT, WITHOUT ROWID;

CREATE TABLE refusals (
  workspace_id INTEGER NOT NULL,
  handle TEXT NOT NULL,
  rule TEXT NOT NULL,
  minute INTEGER NOT NULL,
  count INTEGER NOT NULL,
  last_message TEXT NOT NULL,
  PRIMARY KEY (workspace_id, minute, handle, rule)
) STRICT, WITHOUT ROWID;

CREATE TABLE dead_letters (
  dead_letter_id TEXT NOT NULL PRIMARY KEY,
  workspace_id INTEGER NOT NULL,
  sender TEXT NOT NULL,
  code TEXT NOT NULL,
  reason TEXT NOT NULL,
  payload TEXT NOT NULL,
  created_at INTEGER NOT NULL,
  attempts INTEGER NOT NULL,
  redriven_at INTEGER,
  message_id TEXT
) STRICT;
CREATE INDEX dead_letters_by_sender ON dead_letters (workspace_id, sender, dead_letter_id);

CREATE TABLE consumers (
  workspace_id INTEGER NOT NULL,
  name TEXT NOT NULL,
  last_log_id INTEGER NOT NULL,
  PRIMARY KEY (workspace_id, name)
) STRICT, WITHOUT ROWID;
