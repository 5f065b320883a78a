INSERT INTO consumers ({consumer}) VALUES (?, ?, ?)
ON CONFLICT (workspace_id, name) DO UPDATE SET
  last_log_id = excluded.last_log_id
