-- A session stays where it was made: an id that another workspace has taken already becomes NULL here, and is refused.
INSERT INTO sessions ({session}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?,
  ?, ?, ?, ?)
ON CONFLICT (session_id) DO UPDATE SET
  workspace_id = CASE WHEN sessions.workspace_id = excluded.workspace_id THEN excluded.workspace_id END,
  harness = excluded.harness, native_id = excluded.native_id, host = excluded.host, cwd = excluded.cwd, pid =
  excluded.pid, pid_started_at = excluded.pid_started_at, wake_mode = excluded.wake_mode, replyable =
  excluded.replyable, capabilities = excluded.capabilities, levels = excluded.levels, presence =
  excluded.presence, active_turn_id = excluded.active_turn_id, presence_source = excluded.presence_source,
  presence_at = excluded.presence_at, context_tokens = excluded.context_tokens, context_limit =
  excluded.context_limit, resumable = excluded.resumable, task_id = excluded.task_id, branch = excluded.branch,
  heartbeat_at = excluded.heartbeat_at, ended_at = excluded.ended_at,
  harness_version = excluded.harness_version, transport = excluded.transport,
  said_levels = excluded.said_levels
