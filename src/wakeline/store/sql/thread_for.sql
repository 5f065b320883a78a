SELECT {thread t}, CASE WHEN k.handle IS NULL THEN 0 ELSE 1 END
FROM threads t
LEFT JOIN members k ON k.thread_id = t.thread_id AND k.handle = :reader AND k.left_at IS NULL
WHERE t.thread_id = :thread_id AND t.workspace_id = :workspace_id
