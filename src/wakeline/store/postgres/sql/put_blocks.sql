INSERT INTO blocks ({block})
SELECT {block from item} FROM guard, jsonb_array_elements(:batch -> 'blocks') AS items (item)
ON CONFLICT (workspace_id, blocked, blocker) DO UPDATE SET
  created_by = excluded.created_by, created_at = excluded.created_at, lifted_at = excluded.lifted_at
