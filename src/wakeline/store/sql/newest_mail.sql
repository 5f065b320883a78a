-- Looks back only so far: who has said more than that since has other things to take up.
SELECT m.message_id
FROM messages m
JOIN receipts r ON r.log_id = m.log_id AND r.workspace_id = m.workspace_id AND r.recipient = :reader
WHERE m.thread_id = :thread_id AND m.seq <= :until AND m.seq > :until - 100 AND m.sender <> :reader
ORDER BY m.seq DESC
LIMIT 1
