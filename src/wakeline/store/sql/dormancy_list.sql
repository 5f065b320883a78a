-- Scalars, not EXISTS, as in dormant_agents.
SELECT {dormancy d}
FROM dormancies d
JOIN principals p ON p.workspace_id = d.workspace_id AND p.handle = d.handle
WHERE d.workspace_id = :workspace_id AND (:handle = '' OR d.handle = :handle) AND p.retired_at IS NULL
  AND (
    SELECT 1 FROM receipts r
    WHERE r.workspace_id = p.workspace_id AND r.recipient = p.handle AND r.box = 0
    LIMIT 1) IS NOT NULL
  AND (
    SELECT 1 FROM sessions s
    WHERE s.workspace_id = p.workspace_id AND s.handle = p.handle AND s.ended_at IS NULL
      AND s.heartbeat_at > :beating_since
    LIMIT 1) IS NULL
ORDER BY d.handle
LIMIT :limit
