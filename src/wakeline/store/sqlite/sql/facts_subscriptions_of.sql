SELECT json_group_array(json_array({subscription}))
FROM subscriptions
WHERE workspace_id = :workspace_id AND handle IN (SELECT value FROM json_each(:subscriptions_of))
  AND status <> 'retired'
