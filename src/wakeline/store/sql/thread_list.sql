SELECT {thread t}
FROM members k
JOIN threads t ON t.thread_id = k.thread_id
WHERE k.workspace_id = :workspace_id AND k.handle = :reader AND k.left_at IS NULL AND k.thread_id < :before
  AND (:status = '' OR t.status = :status) AND (:type = '' OR t.type = :type)
ORDER BY k.thread_id DESC
LIMIT :limit
