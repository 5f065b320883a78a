SELECT json_group_array(json_array({member m}))
FROM threads t INDEXED BY threads_of_roles
CROSS JOIN members m ON m.thread_id = t.thread_id
WHERE t.workspace_id = :workspace_id AND t.role IS NOT NULL
  AND m.handle IN (SELECT value FROM json_each(:role_threads_of))
