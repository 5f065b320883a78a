-- A row that is for a bridge is about no message, so it is joined with none.
SELECT {log l}, {message m}
FROM log l
LEFT JOIN messages m ON m.message_id = l.subject AND l.kind = 'message.posted'
WHERE l.workspace_id = :workspace_id AND l.log_id > :after AND l.log_id <= :until AND l.stream = 'host:' || :host
ORDER BY l.log_id
LIMIT :limit
