SELECT last_log_id FROM consumers WHERE workspace_id = :workspace_id AND name = :name FOR UPDATE SKIP LOCKED
