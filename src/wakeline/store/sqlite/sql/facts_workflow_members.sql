SELECT json_group_array(json_array({member m}))
FROM threads t INDEXED BY threads_working
CROSS JOIN members m ON m.thread_id = t.thread_id
WHERE t.workspace_id = :workspace_id AND t.type = 'workflow' AND t.status = 'active'
  AND m.handle IN (SELECT value FROM json_each(:workflows_of))
