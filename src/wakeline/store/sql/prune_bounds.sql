-- The oldest row that is young enough to keep (none: NULL), the kept log's first and last row, the slowest consumer.
SELECT
  (SELECT log_id FROM log WHERE workspace_id = :workspace_id AND created_at >= :before ORDER BY log_id LIMIT 1),
  (SELECT first_log_id FROM workspaces WHERE workspace_id = :workspace_id),
  (SELECT last_log_id FROM workspaces WHERE workspace_id = :workspace_id),
  (SELECT min(last_log_id) FROM consumers WHERE workspace_id = :workspace_id)
