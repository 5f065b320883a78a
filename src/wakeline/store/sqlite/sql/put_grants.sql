INSERT INTO grants ({grant}) VALUES (?, ?, ?, ?, ?, ?, ?)
ON CONFLICT (workspace_id, grantee, scope, owner) DO UPDATE SET
  granted_by = excluded.granted_by, created_at = excluded.created_at, revoked_at = excluded.revoked_at
