SELECT json_group_array(json_array({session}))
FROM sessions
WHERE workspace_id = :workspace_id AND handle IN (SELECT value FROM json_each(:sessions_of)) AND ended_at IS NULL
