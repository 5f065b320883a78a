UPDATE workspaces SET first_log_id = :floor + 1 WHERE workspace_id = :workspace_id AND first_log_id <= :floor
