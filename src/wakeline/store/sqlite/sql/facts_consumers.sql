SELECT json_group_array(json_array({consumer}))
FROM consumers
WHERE workspace_id = :workspace_id AND name IN (SELECT value FROM json_each(:consumers))
