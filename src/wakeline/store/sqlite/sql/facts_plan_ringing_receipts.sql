SELECT json_group_array(json_array({receipt r of w}))
FROM deliveries d
CROSS JOIN wakes w ON w.delivery_id = d.delivery_id AND w.delivery_id IS NOT NULL
CROSS JOIN receipts r ON r.log_id = w.log_id AND r.workspace_id = w.workspace_id AND r.recipient = w.handle
WHERE d.subscription_id IN (SELECT value FROM json_each(:seats)) AND d.outcome IS NULL AND d.target = 'bridge-daemon'
