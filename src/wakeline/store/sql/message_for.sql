SELECT {message m}, {receipt r}
FROM messages m
LEFT JOIN receipts r ON r.thread_id = m.thread_id AND r.seq = m.seq AND r.recipient = :reader
WHERE m.message_id = :message_id AND m.workspace_id = :workspace_id AND {visible m}
