INSERT INTO dormancies ({dormancy}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
ON CONFLICT (workspace_id, handle) DO UPDATE SET
  message_id = excluded.message_id, tries = excluded.tries, unreachable = excluded.unreachable,
  failures = excluded.failures, last_way = excluded.last_way, next_at = excluded.next_at, reason = excluded.reason,
  stopped_at = excluded.stopped_at, updated_at = excluded.updated_at
