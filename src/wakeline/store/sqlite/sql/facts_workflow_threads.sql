-- From the active workflows, which are few, to those that one of these handles works in.
SELECT json_group_array(json_array({thread t}))
FROM threads t INDEXED BY threads_working
WHERE t.workspace_id = :workspace_id AND t.type = 'workflow' AND t.status = 'active' AND EXISTS (
  SELECT 1 FROM members m
  WHERE m.thread_id = t.thread_id AND m.handle IN (SELECT value FROM json_each(:workflows_of)) AND m.left_at IS NULL)
