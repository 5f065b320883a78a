SELECT {message m}, {receipt r of m}
FROM messages m
LEFT JOIN receipts r ON r.log_id = m.log_id AND r.workspace_id = m.workspace_id AND r.recipient = :reader
WHERE m.message_id = :message_id AND m.workspace_id = :workspace_id AND {visible m}
