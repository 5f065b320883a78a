-- Who never had a session and is not to be started has nothing that could be brought back.
SELECT p.handle, d.message_id
FROM principals p
LEFT JOIN dormancies d ON d.workspace_id = p.workspace_id AND d.handle = p.handle
WHERE p.workspace_id = :workspace_id AND p.handle > :after AND p.kind = 'agent' AND p.retired_at IS NULL
  AND (d.next_at IS NULL OR d.next_at <= :now)
  AND EXISTS (
    SELECT 1 FROM receipts r
    WHERE r.workspace_id = p.workspace_id AND r.recipient = p.handle AND r.box = 0)
  AND NOT EXISTS (
    SELECT 1 FROM sessions s
    WHERE s.workspace_id = p.workspace_id AND s.handle = p.handle AND s.ended_at IS NULL
      AND s.heartbeat_at > :beating_since)
  AND (
    EXISTS (SELECT 1 FROM sessions s WHERE s.workspace_id = p.workspace_id AND s.handle = p.handle)
    OR EXISTS (SELECT 1 FROM mandates m WHERE m.workspace_id = p.workspace_id AND m.handle = p.handle))
ORDER BY p.handle
LIMIT :limit
