SELECT l.log_id, k.handle
FROM log l
JOIN members k ON k.thread_id = substr(l.stream, 8) AND k.left_at IS NULL
WHERE l.workspace_id = :workspace_id AND l.log_id > :after AND l.log_id <= :until AND l.stream LIKE 'thread:%'
ORDER BY l.log_id
