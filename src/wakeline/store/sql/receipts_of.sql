SELECT {receipt r of m}
FROM messages m
JOIN receipts r ON r.log_id = m.log_id AND r.workspace_id = m.workspace_id
WHERE m.log_id = :log_id AND m.workspace_id = :workspace_id
ORDER BY r.recipient
