SELECT json_group_array(json_array({bucket}))
FROM buckets
WHERE workspace_id = :workspace_id AND sender IN (
  SELECT 'wake:' || handle FROM subscriptions WHERE subscription_id IN (SELECT value FROM json_each(:plans)))
