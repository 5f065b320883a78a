INSERT INTO grants ({grant})
SELECT {grant from item} FROM guard, jsonb_array_elements(:batch -> 'grants') AS items (item)
ON CONFLICT (workspace_id, grantee, scope, owner) DO UPDATE SET
  granted_by = excluded.granted_by, created_at = excluded.created_at, revoked_at = excluded.revoked_at
