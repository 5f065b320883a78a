SELECT DISTINCT w.delivery_id, m.message_id
FROM log l
JOIN messages m ON m.message_id = l.subject AND m.in_reply_to IS NOT NULL
JOIN wakes w ON w.message_id = m.in_reply_to AND w.message_id IS NOT NULL AND w.handle = m.sender
JOIN deliveries d ON d.delivery_id = w.delivery_id AND d.target = 'bridge-daemon' AND d.step <> 'replied'
WHERE l.workspace_id = :workspace_id AND l.log_id > :after AND l.log_id <= :until AND l.kind = 'message.posted'
