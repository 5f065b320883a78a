UPDATE workspaces SET last_log_id = :last_log_id, version = version + :batches WHERE workspace_id = :workspace_id
