SELECT thread_id FROM threads
WHERE workspace_id = :workspace_id AND status = 'closed' AND closed_at < :closed_before AND last_seq > 0
  AND EXISTS (SELECT 1 FROM messages m WHERE m.thread_id = threads.thread_id)
ORDER BY closed_at
LIMIT 100
