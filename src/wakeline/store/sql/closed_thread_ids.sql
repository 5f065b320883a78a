-- Not while somebody has unread mail there.  Who was retired does not come to read it.
SELECT thread_id FROM threads t
WHERE t.workspace_id = :workspace_id AND t.status = 'closed' AND t.closed_at < :closed_before AND t.last_seq > 0
  AND EXISTS (SELECT 1 FROM messages m WHERE m.thread_id = t.thread_id)
  AND NOT EXISTS (
    SELECT 1 FROM messages m
    CROSS JOIN receipts r
    CROSS JOIN principals p
    WHERE m.thread_id = t.thread_id AND r.log_id = m.log_id AND r.workspace_id = m.workspace_id
      AND r.box = 0 AND (r.expires_at IS NULL OR r.expires_at > :now)
      AND p.workspace_id = r.workspace_id AND p.handle = r.recipient AND p.retired_at IS NULL)
ORDER BY t.closed_at
LIMIT 100
