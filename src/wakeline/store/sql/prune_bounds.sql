-- The oldest row that is young enough to keep (none: NULL), the kept log's first and last row, the slowest consumer.
SELECT
  (SELECT log_id FROM log WHERE workspace_id = :workspace_id AND created_at >= :before ORDER BY log_id LIMIT 1),
  (SELECT first_log_id FROM workspaces WHERE workspace_id = :workspace_id),
  (SELECT last_log_id FROM workspaces WHERE workspace_id = :workspace_id),
  -- Where nobody subscribes the matcher has nothing to look at, and its place is stored only now and then.
  (SELECT min(c.last_log_id) FROM consumers c
   WHERE c.workspace_id = :workspace_id
     AND (c.name <> 'matcher' OR EXISTS (SELECT 1 FROM subscription_keys x WHERE x.workspace_id = :workspace_id)))
