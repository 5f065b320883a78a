INSERT INTO refusals ({refusal}) VALUES (?, ?, ?, ?, ?, ?)
ON CONFLICT (workspace_id, minute, handle, rule) DO UPDATE SET
  count = count + excluded.count, last_message = excluded.last_message
