-- Activation: what a human allows for an agent, how far we are with one that is dormant, and every attempt.
-- The twin of SQLite's.

CREATE TABLE mandates (
  workspace_id BIGINT NOT NULL,
  handle TEXT COLLATE "C" NOT NULL,
  allow TEXT COLLATE "C" NOT NULL CHECK (allow = 'none' OR allow = 'resume' OR allow = 'spawn'),
  max_per_hour BIGINT NOT NULL,
  concurrency BIGINT NOT NULL,
  command TEXT,
  harness TEXT COLLATE "C",
  host TEXT COLLATE "C",
  cwd TEXT,
  changed_by TEXT COLLATE "C" NOT NULL,
  changed_at BIGINT NOT NULL,
  PRIMARY KEY (workspace_id, handle)
);

CREATE TABLE dormancies (
  workspace_id BIGINT NOT NULL,
  handle TEXT COLLATE "C" NOT NULL,
  message_id TEXT COLLATE "C",
  tries BIGINT NOT NULL,
  unreachable BIGINT NOT NULL,
  failures BIGINT NOT NULL,
  last_way TEXT COLLATE "C",
  next_at BIGINT NOT NULL,
  reason TEXT COLLATE "C",
  stopped_at BIGINT,
  updated_at BIGINT NOT NULL,
  PRIMARY KEY (workspace_id, handle)
);

CREATE TABLE activations (
  activation_id TEXT COLLATE "C" NOT NULL PRIMARY KEY,
  workspace_id BIGINT NOT NULL,
  handle TEXT COLLATE "C" NOT NULL,
  way TEXT COLLATE "C" NOT NULL CHECK (way = 'trigger' OR way = 'resume' OR way = 'spawn'),
  session_id TEXT COLLATE "C",
  host TEXT COLLATE "C",
  thread_id TEXT COLLATE "C",
  message_id TEXT COLLATE "C",
  log_id BIGINT NOT NULL,
  attempt BIGINT NOT NULL,
  result TEXT COLLATE "C" CHECK (
    result = 'triggered' OR result = 'already_active' OR result = 'failed' OR result = 'fallback_resumed'
    OR result = 'fallback_spawned'),
  reason TEXT COLLATE "C",
  lease_owner TEXT COLLATE "C",
  lease_until BIGINT,
  fence BIGINT NOT NULL,
  pid BIGINT,
  pid_started_at BIGINT,
  exit_status BIGINT,
  output TEXT,
  stop_asked_by TEXT COLLATE "C",
  created_at BIGINT NOT NULL,
  started_at BIGINT,
  settled_at BIGINT,
  CHECK ((result IS NULL) = (settled_at IS NULL))
);

-- One message never has two processes at once.
CREATE UNIQUE INDEX activations_once ON activations (workspace_id, handle, message_id) WHERE result IS NULL;
-- By an expression, as for active workflows: so only who asks for open ones finds it.
CREATE INDEX activations_open ON activations ((workspace_id + 0), created_at) WHERE result IS NULL;
CREATE INDEX activations_by_workspace ON activations (workspace_id, activation_id);
CREATE INDEX activations_by_handle ON activations (workspace_id, handle, activation_id);
CREATE INDEX activations_settled ON activations (settled_at) WHERE settled_at IS NOT NULL;
