SELECT 1 FROM sessions WHERE workspace_id = :workspace_id AND ended_at < :before LIMIT 1
