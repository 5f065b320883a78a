SELECT workspace_id, delivery_id, subscription_id, handle, next_attempt_at
FROM deliveries
WHERE target = 'bridge-daemon' AND next_attempt_at IS NOT NULL AND next_attempt_at <= :now
  AND (step <> 'queued' OR lease_owner IS NOT NULL OR created_at <= :waiting_before)
ORDER BY next_attempt_at
LIMIT :limit
