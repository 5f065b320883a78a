SELECT {message m}, {receipt r}
FROM messages m
LEFT JOIN receipts r ON r.thread_id = m.thread_id AND r.seq = m.seq AND r.recipient = :reader
WHERE m.thread_id = :thread_id AND m.seq > :since_seq
ORDER BY m.seq
LIMIT :limit
