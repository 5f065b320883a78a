INSERT INTO principals (workspace_id, handle, kind, roles, created_at, created_by)
SELECT workspace_id, :handle, :kind, :roles, :now, '@system' FROM workspaces WHERE name = :name AND epoch = :epoch
ON CONFLICT DO NOTHING
