INSERT INTO consumers (workspace_id, name, last_log_id) VALUES (:workspace_id, :name, :last_log_id)
ON CONFLICT (workspace_id, name) DO UPDATE SET last_log_id = excluded.last_log_id
WHERE consumers.last_log_id < excluded.last_log_id
