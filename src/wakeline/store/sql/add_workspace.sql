INSERT INTO workspaces (name, epoch, version, last_log_id, first_log_id, created_at)
VALUES (:name, :epoch, 0, 0, 1, :now)
ON CONFLICT (name) DO NOTHING
