INSERT INTO refusals ({refusal})
SELECT {refusal from item} FROM guard, jsonb_array_elements(:batch -> 'refusals') AS items (item)
ON CONFLICT (workspace_id, minute, handle, rule) DO UPDATE SET
  count = refusals.count + excluded.count, last_message = excluded.last_message
