SELECT DISTINCT w.subscription_id
FROM log l
JOIN messages m ON m.message_id = l.subject AND m.kind = 'system'
JOIN wakes w ON w.thread_id = m.thread_id AND w.state = 'held' AND w.thread_id IS NOT NULL
WHERE l.workspace_id = :workspace_id AND l.log_id > :after AND l.log_id <= :until AND l.kind = 'message.posted'
  AND w.reason = 'thread_blocked'
