-- What is being rung inside sessions for these subscriptions.
SELECT json_group_array(json_array({wake w}))
FROM deliveries d
CROSS JOIN wakes w ON w.delivery_id = d.delivery_id AND w.delivery_id IS NOT NULL
WHERE d.subscription_id IN (SELECT value FROM json_each(:seats)) AND d.outcome IS NULL AND d.target = 'bridge-daemon'
