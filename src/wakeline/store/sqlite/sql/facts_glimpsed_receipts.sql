-- (thread id, recipient, seq): the same for who was never in the thread; their glimpses are of one message each.
SELECT json_group_array(json_array({receipt r}))
FROM json_each(:unread_until) a
CROSS JOIN glimpses g ON g.thread_id = a.value ->> 0 AND g.handle = a.value ->> 1 AND g.last_seq <= a.value ->> 2
  AND g.workspace_id = :workspace_id
CROSS JOIN receipts r ON r.thread_id = g.thread_id AND r.seq = g.last_seq AND r.recipient = g.handle
  AND r.read_at IS NULL
