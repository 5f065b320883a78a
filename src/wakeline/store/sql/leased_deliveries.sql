SELECT workspace_id, delivery_id, subscription_id, handle, next_attempt_at
FROM deliveries
WHERE outcome IS NULL AND lease_owner = :owner
