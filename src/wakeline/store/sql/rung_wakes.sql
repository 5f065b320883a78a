SELECT w.subscription_id, w.log_id
FROM receipts r
JOIN messages m ON m.log_id = r.log_id AND m.workspace_id = r.workspace_id
JOIN wakes w ON w.message_id = m.message_id AND w.message_id IS NOT NULL AND w.handle = r.recipient
WHERE r.workspace_id = :workspace_id AND r.recipient = :handle AND r.box = 0
  AND (r.expires_at IS NULL OR r.expires_at > :now)
  AND w.state = 'rung'
ORDER BY r.rank, r.log_id
LIMIT :limit
