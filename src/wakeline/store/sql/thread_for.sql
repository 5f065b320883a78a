-- Who is not in it has at most glimpses of it; the last one is all that they know of its end.
SELECT {thread t}, CASE WHEN k.handle IS NULL THEN 0 ELSE 1 END, g.last_seq, m.created_at
FROM threads t
LEFT JOIN members k ON k.thread_id = t.thread_id AND k.handle = :reader AND k.left_at IS NULL
LEFT JOIN glimpses g ON g.thread_id = t.thread_id AND g.handle = :reader AND g.last_seq = (
  SELECT max(o.last_seq) FROM glimpses o WHERE o.thread_id = t.thread_id AND o.handle = :reader)
LEFT JOIN messages m ON m.thread_id = g.thread_id AND m.seq = g.last_seq
WHERE t.thread_id = :thread_id AND t.workspace_id = :workspace_id
