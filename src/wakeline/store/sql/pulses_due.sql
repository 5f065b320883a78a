SELECT p.handle, (
    SELECT count(*) FROM receipts r
    WHERE r.workspace_id = p.workspace_id AND r.recipient = p.handle AND r.box = 0
      AND (r.expires_at IS NULL OR r.expires_at > :now)) AS unread
FROM principals p
WHERE p.workspace_id = :workspace_id AND p.kind = 'agent' AND p.retired_at IS NULL
  AND (p.pulsed_at IS NULL OR p.pulsed_at <= :before)
  AND (
    EXISTS (SELECT 1 FROM receipts r WHERE r.workspace_id = p.workspace_id AND r.recipient = p.handle AND r.box = 0)
    OR EXISTS (
      SELECT 1 FROM subscription_keys x
      WHERE x.workspace_id = p.workspace_id AND x.handle = p.handle AND x.trigger = 'HEARTBEAT_PULSE' AND x.active = 1))
ORDER BY p.handle
LIMIT :limit
