SELECT json_group_array(json_array({session}))
FROM sessions
WHERE workspace_id = :workspace_id AND ended_at IS NULL AND handle IN (
  SELECT handle FROM subscriptions WHERE subscription_id IN (SELECT value FROM json_each(:seats)))
