-- (thread id, recipient, seq): what this recipient has not read up to there.
SELECT json_group_array(json_array({receipt r of m}))
FROM json_each(:unread_until) a
CROSS JOIN members k ON k.thread_id = a.value ->> 0 AND k.handle = a.value ->> 1 AND k.workspace_id = :workspace_id
CROSS JOIN messages m ON m.thread_id = k.thread_id AND m.seq > k.last_read_seq AND m.seq <= a.value ->> 2
CROSS JOIN receipts r ON r.log_id = m.log_id AND r.workspace_id = m.workspace_id AND r.recipient = k.handle
  AND r.read_at IS NULL
