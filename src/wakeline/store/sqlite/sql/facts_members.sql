SELECT json_group_array(json_array({member}))
FROM members
WHERE workspace_id = :workspace_id AND thread_id IN (SELECT value FROM json_each(:keys))
