SELECT {workspace} FROM workspaces ORDER BY workspace_id
