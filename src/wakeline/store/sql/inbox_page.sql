-- An expired message that the sweeper has not reached yet is not unread any more; who asks for all sees it.
SELECT {message m}, {receipt r of m}
FROM receipts r
JOIN messages m ON m.log_id = r.log_id AND m.workspace_id = r.workspace_id
WHERE r.workspace_id = :workspace_id AND r.recipient = :recipient
  AND r.box BETWEEN :first_box AND :last_box
  AND (r.box, r.rank, r.log_id) > (:after_box, :after_rank, :after_log_id)
  AND (:last_box > 0 OR r.expires_at IS NULL OR r.expires_at > :now)
ORDER BY r.box, r.rank, r.log_id
LIMIT :limit
