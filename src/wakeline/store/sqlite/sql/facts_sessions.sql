SELECT json_group_array(json_array({session}))
FROM sessions
WHERE +workspace_id = :workspace_id AND session_id IN (SELECT value FROM json_each(:sessions))
