-- Takes a whole receipt, of which the thread and the seq stand with its message.
INSERT INTO receipts ({receipt}) VALUES (?1, ?2, ?3, ?6, ?7, ?8, ?9, ?10, ?11, ?12)
ON CONFLICT (log_id, workspace_id, recipient) DO UPDATE SET
  box = excluded.box,
  seen_at = coalesce(seen_at, excluded.seen_at),
  read_at = coalesce(read_at, excluded.read_at),
  archived_at = coalesce(archived_at, excluded.archived_at),
  lapsed = excluded.lapsed
