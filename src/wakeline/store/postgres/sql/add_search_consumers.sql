INSERT INTO consumers (workspace_id, name, last_log_id)
SELECT w.workspace_id, 'search', 0 FROM workspaces w
WHERE NOT EXISTS (SELECT 1 FROM consumers c WHERE c.workspace_id = w.workspace_id AND c.name = 'search')
ON CONFLICT DO NOTHING
