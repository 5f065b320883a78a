INSERT INTO proofs ({proof})
SELECT {proof from item} FROM guard, jsonb_array_elements(:batch -> 'proofs') AS items (item)
ON CONFLICT (workspace_id, route) DO UPDATE SET
  levels = excluded.levels, verdicts = excluded.verdicts, proven_by = excluded.proven_by,
  proven_at = excluded.proven_at
