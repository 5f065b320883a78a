INSERT INTO principals ({principal})
SELECT workspace_id, :handle, :kind, :roles, NULL, :now, '@system', NULL FROM workspaces WHERE name = :name AND epoch = :epoch
ON CONFLICT DO NOTHING
