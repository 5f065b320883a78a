-- The plus keeps the planner from walking the workspace: the keys are few, their rows are found by them.
SELECT json_group_array(json_array({dead_letter}))
FROM dead_letters
WHERE +workspace_id = :workspace_id AND dead_letter_id IN (SELECT value FROM json_each(:dead_letters))
