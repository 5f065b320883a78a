SELECT json_group_array(json_array({thread}))
FROM threads
WHERE workspace_id = :workspace_id AND audience_key IN (SELECT value FROM json_each(:audience_keys))
