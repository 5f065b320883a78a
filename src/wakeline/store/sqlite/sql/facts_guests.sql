-- (thread id, handle) pairs, and which of them have a glimpse.
SELECT json_group_array(json_array(a.value ->> 0, a.value ->> 1))
FROM json_each(:guests) a
WHERE EXISTS (
  SELECT 1 FROM glimpses g
  WHERE g.thread_id = a.value ->> 0 AND g.handle = a.value ->> 1 AND g.workspace_id = :workspace_id)
