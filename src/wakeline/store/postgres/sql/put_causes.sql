INSERT INTO causes ({cause})
SELECT {cause from item} FROM guard, jsonb_array_elements(:batch -> 'causes') AS items (item)
ON CONFLICT (workspace_id, handle, session_id) DO UPDATE SET
  message_id = excluded.message_id, thread_id = excluded.thread_id, chain = excluded.chain, taken_at =
  excluded.taken_at
