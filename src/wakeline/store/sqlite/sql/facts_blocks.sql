SELECT json_group_array(json_array({block}))
FROM blocks
WHERE workspace_id = :workspace_id AND blocked IN (SELECT value FROM json_each(:senders))
