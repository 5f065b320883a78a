-- (thread id, recipient, seq): what this recipient has not read up to there.
SELECT json_group_array(json_array({receipt r}))
FROM json_each(:unread_until) a
CROSS JOIN members k ON k.thread_id = a.value ->> 0 AND k.handle = a.value ->> 1 AND k.workspace_id = :workspace_id
CROSS JOIN receipts r ON r.thread_id = k.thread_id AND r.seq > k.last_read_seq AND r.seq <= a.value ->> 2
  AND r.recipient = k.handle AND r.read_at IS NULL
