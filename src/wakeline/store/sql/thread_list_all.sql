-- The same for who may see every thread; :reader is taken so that both are called alike.
SELECT {thread}
FROM threads
WHERE workspace_id = :workspace_id AND thread_id < :before
  AND (:status = '' OR status = :status) AND (:type = '' OR type = :type) AND :reader <> ''
ORDER BY thread_id DESC
LIMIT :limit
