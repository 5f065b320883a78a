-- Of every workspace, in the words of the index of open ones: else every attempt that was ever made would be read.
SELECT workspace_id, activation_id, handle, message_id
FROM activations
WHERE result IS NULL AND workspace_id + 0 > 0
  AND (lease_until <= :now OR (lease_until IS NULL AND created_at <= :waiting_before))
ORDER BY workspace_id + 0, created_at
LIMIT :limit
