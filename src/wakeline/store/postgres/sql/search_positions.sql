-- Workspaces whose log goes further than their index: the end of the log, and how far the index is.
SELECT w.workspace_id, w.last_log_id, c.last_log_id
FROM workspaces w
LEFT JOIN consumers c ON c.workspace_id = w.workspace_id AND c.name = 'search'
WHERE w.last_log_id > coalesce(c.last_log_id, 0) AND (:workspace_id::bigint IS NULL OR w.workspace_id = :workspace_id)
ORDER BY w.workspace_id
