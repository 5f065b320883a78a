INSERT INTO principals ({principal})
SELECT workspace_id, :handle, :kind, :roles, NULL, :now, '@system', NULL FROM workspaces WHERE name = :name
ON CONFLICT DO NOTHING
