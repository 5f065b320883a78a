SELECT json_group_array(json_array({subscription}))
FROM subscriptions
WHERE workspace_id = :workspace_id AND route_key IN (SELECT value FROM json_each(:route_keys)) AND status <> 'retired'
