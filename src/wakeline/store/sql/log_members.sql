-- The same rule as in log_visible, from the rows to their readers.  The later parts are for threads that somebody can be
-- out of and still have mail in: the members of a conversation and of everyone's thread never leave it.
SELECT l.log_id, k.handle
FROM log l
JOIN members k ON k.thread_id = substr(l.stream, 8) AND k.left_at IS NULL
WHERE l.workspace_id = :workspace_id AND l.log_id > :after AND l.log_id <= :until AND l.stream LIKE 'thread:%'
UNION
SELECT l.log_id, r.recipient
FROM log l
JOIN threads t ON t.thread_id = substr(l.stream, 8) AND (t.role IS NOT NULL OR t.audience_key IS NULL)
JOIN messages m ON m.message_id = l.subject
JOIN receipts r ON r.log_id = m.log_id AND r.workspace_id = m.workspace_id
WHERE l.workspace_id = :workspace_id AND l.log_id > :after AND l.log_id <= :until
  AND l.kind IN ('message.posted', 'message.retracted')
UNION
SELECT l.log_id, m.sender
FROM log l
JOIN threads t ON t.thread_id = substr(l.stream, 8) AND (t.role IS NOT NULL OR t.audience_key IS NULL)
JOIN messages m ON m.message_id = l.subject
WHERE l.workspace_id = :workspace_id AND l.log_id > :after AND l.log_id <= :until
  AND l.kind IN ('message.posted', 'message.retracted')
