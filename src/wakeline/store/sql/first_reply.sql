SELECT {message m}, {receipt r}
FROM messages m
JOIN members k ON k.thread_id = m.thread_id AND k.handle = :asker AND k.left_at IS NULL
LEFT JOIN receipts r ON r.thread_id = m.thread_id AND r.seq = m.seq AND r.recipient = :asker
WHERE m.in_reply_to = :message_id AND m.workspace_id = :workspace_id AND m.sender <> :asker AND m.retracted_at IS NULL
ORDER BY m.log_id
LIMIT 1
