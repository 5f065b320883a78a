-- Activation: what a human allows for an agent, how far we are with one that is dormant, and every attempt.

CREATE TABLE mandates (
  workspace_id INTEGER NOT NULL,
  handle TEXT NOT NULL,
  allow TEXT NOT NULL CHECK (allow = 'none' OR allow = 'resume' OR allow = 'spawn'),
  max_per_hour INTEGER NOT NULL,
  concurrency INTEGER NOT NULL,
  command TEXT,
  harness TEXT,
  host TEXT,
  cwd TEXT,
  changed_by TEXT NOT NULL,
  changed_at INTEGER NOT NULL,
  PRIMARY KEY (workspace_id, handle)
) STRICT, WITHOUT ROWID;

CREATE TABLE dormancies (
  workspace_id INTEGER NOT NULL,
  handle TEXT NOT NULL,
  message_id TEXT,
  tries INTEGER NOT NULL,
  unreachable INTEGER NOT NULL,
  failures INTEGER NOT NULL,
  last_way TEXT,
  next_at INTEGER NOT NULL,
  reason TEXT,
  stopped_at INTEGER,
  updated_at INTEGER NOT NULL,
  PRIMARY KEY (workspace_id, handle)
) STRICT, WITHOUT ROWID;

CREATE TABLE activations (
  activation_id TEXT NOT NULL PRIMARY KEY,
  workspace_id INTEGER NOT NULL,
  handle TEXT NOT NULL,
  way TEXT NOT NULL CHECK (way = 'trigger' OR way = 'resume' OR way = 'spawn'),
  session_id TEXT,
  host TEXT,
  thread_id TEXT,
  message_id TEXT,
  log_id INTEGER NOT NULL,
  attempt INTEGER NOT NULL,
  result TEXT CHECK (
    result = 'triggered' OR result = 'already_active' OR result = 'failed' OR result = 'fallback_resumed'
    OR result = 'fallback_spawned'),
  reason TEXT,
  lease_owner TEXT,
  lease_until INTEGER,
  fence INTEGER NOT NULL,
  pid INTEGER,
  pid_started_at INTEGER,
  exit_status INTEGER,
  output TEXT,
  stop_asked_by TEXT,
  created_at INTEGER NOT NULL,
  started_at INTEGER,
  settled_at INTEGER,
  CHECK ((result IS NULL) = (settled_at IS NULL))
) STRICT, WITHOUT ROWID;

-- One message never has two processes at once.
CREATE UNIQUE INDEX activations_once ON activations (workspace_id, handle, message_id) WHERE result IS NULL;
-- By an expression, as for active workflows: so only who asks for open ones finds it.
CREATE INDEX activations_open ON activations (workspace_id + 0, created_at) WHERE result IS NULL;
CREATE INDEX activations_by_workspace ON activations (workspace_id, activation_id);
CREATE INDEX activations_by_handle ON activations (workspace_id, handle, activation_id);
CREATE INDEX activations_settled ON activations (settled_at) WHERE settled_at IS NOT NULL;
