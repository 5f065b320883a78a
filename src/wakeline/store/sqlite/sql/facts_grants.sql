SELECT json_group_array(json_array({grant}))
FROM grants
WHERE workspace_id = :workspace_id AND grantee IN (SELECT value FROM json_each(:senders))
