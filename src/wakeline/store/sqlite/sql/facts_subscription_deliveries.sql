SELECT json_group_array(json_array({delivery}))
FROM deliveries
WHERE subscription_id IN (SELECT value FROM json_each(:subscriptions)) AND outcome IS NULL
