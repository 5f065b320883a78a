-- The plus keeps the planner from walking the workspace: the keys are few, their rows are found by them.
SELECT json_group_array(json_array({member}))
FROM members
WHERE +workspace_id = :workspace_id AND thread_id IN (
  SELECT thread_id FROM messages
  WHERE +workspace_id = :workspace_id AND message_id IN (SELECT value FROM json_each(:messages)))
