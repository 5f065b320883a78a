SELECT l.log_id, m.number, m.subject, m.body
FROM store.log l
LEFT JOIN store.messages m ON m.message_id = l.subject AND l.kind = 'message.posted'
WHERE l.workspace_id = ? AND l.log_id > ?
ORDER BY l.log_id
LIMIT ?
