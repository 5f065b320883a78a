-- All members of those threads: who writes an entry into a thread knows who sees it.
SELECT json_group_array(json_array({member m}))
FROM threads t INDEXED BY threads_working
CROSS JOIN members m ON m.thread_id = t.thread_id
WHERE t.workspace_id = :workspace_id AND t.type = 'workflow' AND t.status = 'active' AND EXISTS (
  SELECT 1 FROM members k
  WHERE k.thread_id = t.thread_id AND k.handle IN (SELECT value FROM json_each(:workflows_of)) AND k.left_at IS NULL)
