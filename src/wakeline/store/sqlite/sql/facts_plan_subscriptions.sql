SELECT json_group_array(json_array({subscription}))
FROM subscriptions
WHERE +workspace_id = :workspace_id AND subscription_id IN (SELECT value FROM json_each(:plans))
