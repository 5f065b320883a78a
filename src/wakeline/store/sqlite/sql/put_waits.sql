INSERT INTO waits ({wait}) VALUES (?, ?, ?, ?, ?)
ON CONFLICT (workspace_id, message_id) DO UPDATE SET
  until = excluded.until
