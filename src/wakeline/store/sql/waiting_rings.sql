SELECT d.delivery_id, d.subscription_id, d.session_id
FROM sessions s
JOIN deliveries d ON d.session_id = s.session_id AND d.outcome IS NULL AND d.session_id IS NOT NULL
WHERE s.workspace_id = :workspace_id AND s.host = :host AND s.ended_at IS NULL AND s.host IS NOT NULL
  AND d.target = 'bridge-daemon' AND d.step = 'queued' AND d.lease_owner IS NULL
ORDER BY d.delivery_id
LIMIT :limit
