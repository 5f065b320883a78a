-- One count per principal: each is found by the inbox index, which a GROUP BY over the workspace would not use.
SELECT p.handle, (
  SELECT count(*) FROM receipts r
  WHERE r.workspace_id = p.workspace_id AND r.recipient = p.handle AND r.box = 0
    AND (r.expires_at IS NULL OR r.expires_at > :now))
FROM principals p
WHERE p.workspace_id = :workspace_id AND p.kind <> 'system'
