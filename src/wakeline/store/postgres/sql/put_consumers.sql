INSERT INTO consumers ({consumer})
SELECT {consumer from item} FROM guard, jsonb_array_elements(:batch -> 'consumers') AS items (item)
ON CONFLICT (workspace_id, name) DO UPDATE SET
  last_log_id = excluded.last_log_id
