INSERT INTO blocks ({block}) VALUES (?, ?, ?, ?, ?, ?)
ON CONFLICT (workspace_id, blocked, blocker) DO UPDATE SET
  created_by = excluded.created_by, created_at = excluded.created_at, lifted_at = excluded.lifted_at
