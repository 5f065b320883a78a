INSERT INTO waits ({wait})
SELECT {wait from item} FROM guard, jsonb_array_elements(:batch -> 'waits') AS items (item)
ON CONFLICT (workspace_id, message_id) DO UPDATE SET
  until = excluded.until
