-- CROSS JOIN says in which order to look: the stretch of the log first, then only what it leads to.
-- The twin for PostgreSQL differs in how the tags are taken apart.
SELECT
  l.log_id, r.recipient, k.subscription_id, k.filters, k.rung_at, k.coalesce_window, k.target,
  EXISTS (SELECT 1 FROM deliveries d WHERE d.subscription_id = k.subscription_id AND d.outcome IS NULL),
  m.message_id, m.thread_id, m.seq, m.sender, m.subject, m.priority, m.tags, m.in_reply_to, m.wake_policy,
  m.recipients, m.created_at, b.session_id
FROM log l
CROSS JOIN messages m ON m.message_id = l.subject
CROSS JOIN receipts r ON r.log_id = m.log_id AND r.workspace_id = m.workspace_id AND r.recipient <> m.sender
CROSS JOIN subscription_keys x ON x.workspace_id = l.workspace_id AND x.handle = r.recipient AND x.trigger = 'SENT_TO_ME'
  AND x.key IN (
    SELECT 'any' UNION ALL SELECT 'priority:' || m.priority UNION ALL SELECT 'sender:' || m.sender
    UNION ALL SELECT 'reply:' || m.thread_id UNION ALL SELECT 'reply:' || m.in_reply_to WHERE m.in_reply_to IS NOT NULL
    UNION ALL SELECT 'tag:' || value FROM json_each(m.tags))
  AND x.active = 1
CROSS JOIN subscriptions k ON k.subscription_id = x.subscription_id
LEFT JOIN members b ON b.thread_id = m.thread_id AND b.handle = r.recipient
WHERE l.workspace_id = :workspace_id AND l.log_id > :after AND l.log_id <= :until
  AND l.kind = 'message.posted' AND m.wake_policy <> 'silent' AND l.log_id > k.from_log_id
  AND NOT EXISTS (SELECT 1 FROM wakes w WHERE w.subscription_id = k.subscription_id AND w.log_id = l.log_id)
ORDER BY l.log_id
