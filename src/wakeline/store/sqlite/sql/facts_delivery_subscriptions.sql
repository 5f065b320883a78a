SELECT json_group_array(json_array({subscription}))
FROM subscriptions
WHERE subscription_id IN (
  SELECT subscription_id FROM deliveries
  WHERE +workspace_id = :workspace_id AND delivery_id IN (SELECT value FROM json_each(:deliveries)))
