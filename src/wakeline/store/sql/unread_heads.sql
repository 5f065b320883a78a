SELECT m.sender, m.subject, m.message_id
FROM receipts r
JOIN messages m ON m.thread_id = r.thread_id AND m.seq = r.seq
WHERE r.workspace_id = :workspace_id AND r.recipient = :recipient AND r.box = 0
  AND (r.expires_at IS NULL OR r.expires_at > :now)
ORDER BY r.rank, r.log_id
LIMIT :limit
