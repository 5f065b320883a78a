-- The stream says who may see a row: a thread's members, a principal itself, the bridge of a host, or the whole workspace.
-- What is about a message is also for whoever may read that message.
SELECT {log l}, {message m}
FROM log l
LEFT JOIN messages m ON m.message_id = l.subject AND l.kind = 'message.posted'
WHERE l.workspace_id = :workspace_id AND l.log_id > :after AND l.log_id <= :until
  AND (l.stream = 'workspace'
       OR l.stream = 'principal:' || :reader
       OR (l.stream LIKE 'thread:%' AND (
             EXISTS (SELECT 1 FROM members k
               WHERE k.thread_id = substr(l.stream, 8) AND k.handle = :reader AND k.left_at IS NULL)
             OR (l.kind IN ('message.posted', 'message.retracted') AND EXISTS (
               SELECT 1 FROM messages a WHERE a.message_id = l.subject AND {visible a})))))
ORDER BY l.log_id
LIMIT :limit
