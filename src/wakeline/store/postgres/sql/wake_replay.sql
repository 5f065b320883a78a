SELECT
  l.log_id, r.recipient, k.subscription_id, k.filters, k.rung_at, k.coalesce_window, k.target,
  (EXISTS (SELECT 1 FROM deliveries d WHERE d.subscription_id = k.subscription_id AND d.outcome IS NULL))::int::bigint,
  m.message_id, m.thread_id, m.seq, m.sender, m.subject, m.priority, m.tags, m.in_reply_to, m.wake_policy,
  m.recipients, m.created_at, b.session_id
FROM subscriptions k
JOIN log l ON l.workspace_id = k.workspace_id
JOIN messages m ON m.message_id = l.subject
JOIN receipts r ON r.log_id = m.log_id AND r.workspace_id = m.workspace_id AND r.recipient = k.handle
LEFT JOIN members b ON b.thread_id = m.thread_id AND b.handle = r.recipient
WHERE k.subscription_id = :subscription_id AND k.workspace_id = :workspace_id
  AND l.log_id > :after AND l.log_id <= :until
  AND l.kind = 'message.posted' AND m.wake_policy <> 'silent' AND m.sender <> k.handle
  AND r.box = 0 AND (r.expires_at IS NULL OR r.expires_at > :now)
ORDER BY l.log_id
LIMIT :limit
