INSERT INTO role_holders (workspace_id, role, handle)
SELECT workspace_id, :role, :handle FROM workspaces WHERE name = :name AND epoch = :epoch
ON CONFLICT DO NOTHING
