-- Every rank is named, so that the index finds what is new by its log_id and skips what has long been unread.
SELECT {message m}, {receipt r of m}
FROM receipts r
JOIN messages m ON m.log_id = r.log_id AND m.workspace_id = r.workspace_id
WHERE r.workspace_id = :workspace_id AND r.recipient = :recipient AND r.box = 0 AND r.rank IN (0, 1, 2)
  AND r.log_id > :after AND (r.expires_at IS NULL OR r.expires_at > :now)
ORDER BY r.log_id
LIMIT :limit
