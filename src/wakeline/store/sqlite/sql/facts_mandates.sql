SELECT json_group_array(json_array({mandate}))
FROM mandates
WHERE workspace_id = :workspace_id AND handle IN (SELECT value FROM json_each(:mandates))
