INSERT INTO receipts ({receipt}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
ON CONFLICT (thread_id, seq, recipient) DO UPDATE SET
  box = excluded.box,
  seen_at = coalesce(seen_at, excluded.seen_at),
  read_at = coalesce(read_at, excluded.read_at),
  archived_at = coalesce(archived_at, excluded.archived_at),
  lapsed = excluded.lapsed
