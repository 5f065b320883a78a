SELECT workspace_id, activation_id, handle, message_id
FROM activations
WHERE result IS NULL
  AND (lease_until <= :now OR (lease_until IS NULL AND created_at <= :waiting_before))
ORDER BY activation_id
LIMIT :limit
