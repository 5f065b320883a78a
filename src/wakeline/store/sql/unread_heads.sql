SELECT m.sender, m.subject, m.message_id
FROM receipts r
JOIN messages m ON m.log_id = r.log_id AND m.workspace_id = r.workspace_id
WHERE r.workspace_id = :workspace_id AND r.recipient = :recipient AND r.box = 0
  AND (r.expires_at IS NULL OR r.expires_at > :now)
ORDER BY r.rank, r.log_id
LIMIT :limit
