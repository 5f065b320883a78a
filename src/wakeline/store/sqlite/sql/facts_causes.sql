SELECT json_group_array(json_array({cause}))
FROM causes
WHERE workspace_id = :workspace_id AND handle IN (SELECT value FROM json_each(:senders))
