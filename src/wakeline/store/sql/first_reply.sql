SELECT {message m}, {receipt r of m}
FROM messages m
LEFT JOIN receipts r ON r.log_id = m.log_id AND r.workspace_id = m.workspace_id AND r.recipient = :reader
WHERE m.in_reply_to = :message_id AND m.workspace_id = :workspace_id AND m.sender <> :reader AND m.retracted_at IS NULL
  AND {visible m}
ORDER BY m.log_id
LIMIT 1
