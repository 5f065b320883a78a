SELECT count(*) FROM receipts
WHERE workspace_id = :workspace_id AND recipient = :recipient AND box = 0
  AND (expires_at IS NULL OR expires_at > :now)
