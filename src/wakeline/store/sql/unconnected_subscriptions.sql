SELECT DISTINCT k.workspace_id, k.subscription_id, k.subscription_id, k.handle, k.updated_at
FROM wakes w
JOIN subscriptions k ON k.subscription_id = w.subscription_id
WHERE w.state = 'held' AND w.reason = 'no_connection' AND k.status = 'active'
LIMIT :limit
