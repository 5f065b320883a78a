INSERT INTO proofs ({proof}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)
ON CONFLICT (workspace_id, route) DO UPDATE SET
  levels = excluded.levels, verdicts = excluded.verdicts, proven_by = excluded.proven_by,
  proven_at = excluded.proven_at
