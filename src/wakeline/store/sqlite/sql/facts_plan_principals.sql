SELECT json_group_array(json_array({principal}))
FROM principals
WHERE workspace_id = :workspace_id AND handle IN (
  SELECT handle FROM subscriptions WHERE subscription_id IN (SELECT value FROM json_each(:plans)))
