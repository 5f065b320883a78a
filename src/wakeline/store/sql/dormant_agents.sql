-- Who never had a session and is not to be started has nothing that could be brought back.
-- Each question is a scalar, not an EXISTS: PostgreSQL would make a join of that, and read a workspace's receipts for each agent.
SELECT p.handle, d.message_id
FROM principals p
LEFT JOIN dormancies d ON d.workspace_id = p.workspace_id AND d.handle = p.handle
WHERE p.workspace_id = :workspace_id AND p.handle > :after AND p.kind = 'agent' AND p.retired_at IS NULL
  AND (d.next_at IS NULL OR d.next_at <= :now)
  AND (
    SELECT 1 FROM receipts r
    WHERE r.workspace_id = p.workspace_id AND r.recipient = p.handle AND r.box = 0
    LIMIT 1) IS NOT NULL
  AND (
    SELECT 1 FROM sessions s
    WHERE s.workspace_id = p.workspace_id AND s.handle = p.handle AND s.ended_at IS NULL
      AND s.heartbeat_at > :beating_since
    LIMIT 1) IS NULL
  AND (
    (SELECT 1 FROM sessions s WHERE s.workspace_id = p.workspace_id AND s.handle = p.handle LIMIT 1) IS NOT NULL
    OR (SELECT 1 FROM mandates m WHERE m.workspace_id = p.workspace_id AND m.handle = p.handle) IS NOT NULL)
ORDER BY p.handle
LIMIT :limit
