SELECT {message m}, {receipt r of m}
FROM messages m
LEFT JOIN receipts r ON r.log_id = m.log_id AND r.workspace_id = m.workspace_id AND r.recipient = :reader
WHERE m.thread_id = :thread_id AND m.seq > :since_seq
ORDER BY m.seq
LIMIT :limit
