INSERT INTO receipts ({receipt})
SELECT {receipt from item} FROM guard, jsonb_array_elements(:batch -> 'receipts') AS items (item)
ON CONFLICT (log_id, workspace_id, recipient) DO UPDATE SET
  box = excluded.box,
  seen_at = coalesce(receipts.seen_at, excluded.seen_at),
  read_at = coalesce(receipts.read_at, excluded.read_at),
  archived_at = coalesce(receipts.archived_at, excluded.archived_at),
  lapsed = excluded.lapsed
