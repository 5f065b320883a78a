SELECT json_array({workspace}) FROM workspaces WHERE workspace_id = :workspace_id
