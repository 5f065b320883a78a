SELECT m.message_id, m.thread_id, r.log_id, m.created_at, m.recipients
FROM receipts r
JOIN messages m ON m.log_id = r.log_id AND m.workspace_id = r.workspace_id
JOIN threads t ON t.thread_id = m.thread_id
WHERE r.workspace_id = :workspace_id AND r.recipient = :handle AND r.box = 0 AND r.log_id > :after
  AND (r.expires_at IS NULL OR r.expires_at > :now)
  AND m.wake_policy = 'immediate' AND m.sender <> r.recipient
  AND (t.status <> 'blocked' OR t.escalation_owner = r.recipient)
ORDER BY r.rank, r.log_id
LIMIT :limit
