SELECT DISTINCT k.workspace_id, k.subscription_id, k.subscription_id, k.handle, k.updated_at
FROM wakes w
JOIN subscriptions k ON k.subscription_id = w.subscription_id
WHERE w.state = 'waiting' AND k.status = 'active' AND k.flush_at IS NULL
  AND NOT EXISTS (SELECT 1 FROM deliveries d WHERE d.subscription_id = k.subscription_id AND d.outcome IS NULL)
LIMIT :limit
