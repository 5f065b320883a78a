-- (thread id, recipient, seq): the same for who was never in the thread; their glimpses are of one message each.
SELECT json_group_array(json_array({receipt r of m}))
FROM json_each(:unread_until) a
CROSS JOIN glimpses g ON g.thread_id = a.value ->> 0 AND g.handle = a.value ->> 1 AND g.last_seq <= a.value ->> 2
  AND g.workspace_id = :workspace_id
CROSS JOIN messages m ON m.thread_id = g.thread_id AND m.seq = g.last_seq
CROSS JOIN receipts r ON r.log_id = m.log_id AND r.workspace_id = m.workspace_id AND r.recipient = g.handle
  AND r.read_at IS NULL
