INSERT INTO causes ({cause}) VALUES (?, ?, ?, ?, ?, ?, ?)
ON CONFLICT (workspace_id, handle, session_id) DO UPDATE SET
  message_id = excluded.message_id, thread_id = excluded.thread_id, chain = excluded.chain, taken_at =
  excluded.taken_at
