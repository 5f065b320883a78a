SELECT {message m}, {receipt r}
FROM messages m
LEFT JOIN receipts r ON r.thread_id = m.thread_id AND r.seq = m.seq AND r.recipient = :reader
WHERE m.in_reply_to = :message_id AND m.workspace_id = :workspace_id AND m.sender <> :reader AND m.retracted_at IS NULL
  AND {visible m}
ORDER BY m.log_id
LIMIT 1
