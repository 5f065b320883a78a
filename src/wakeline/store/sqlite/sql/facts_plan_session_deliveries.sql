-- What is under way for a session that these subscriptions might wake.
SELECT json_group_array(json_array({delivery d}))
FROM subscriptions k
CROSS JOIN sessions s ON s.workspace_id = k.workspace_id AND s.handle = k.handle
CROSS JOIN deliveries d ON d.session_id = s.session_id AND d.outcome IS NULL
WHERE k.subscription_id IN (SELECT value FROM json_each(:seats))
