DELETE FROM log WHERE workspace_id = :workspace_id AND log_id <= :floor
