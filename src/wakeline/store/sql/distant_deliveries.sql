SELECT workspace_id, delivery_id, subscription_id, handle, next_attempt_at
FROM deliveries
WHERE target = :target AND next_attempt_at IS NOT NULL AND next_attempt_at > :after
ORDER BY next_attempt_at DESC
LIMIT :limit
