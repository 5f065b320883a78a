-- The plus keeps the planner from walking the workspace: the keys are few, their rows are found by them.
SELECT json_group_array(json_array({member}))
FROM members
WHERE +workspace_id = :workspace_id AND thread_id IN (
  SELECT thread_id FROM threads
  WHERE workspace_id = :workspace_id AND audience_key IN (SELECT value FROM json_each(:audience_keys)))
