-- CROSS JOIN keeps the written order: from the few handles that are asked for to their threads, by index.
SELECT json_group_array(json_array({thread t}))
FROM (
  SELECT DISTINCT m.thread_id FROM json_each(:keys) a
  CROSS JOIN members m ON m.workspace_id = :workspace_id AND m.handle = a.value AND m.left_at IS NULL) own
CROSS JOIN threads t ON t.thread_id = own.thread_id AND t.type = 'workflow' AND t.status = 'active'
