SELECT json_group_array(json_array({receipt r}))
FROM deliveries d
CROSS JOIN wakes w ON w.delivery_id = d.delivery_id AND w.delivery_id IS NOT NULL
CROSS JOIN receipts r ON r.thread_id = w.thread_id AND r.seq = w.seq AND r.recipient = w.handle
WHERE d.subscription_id IN (SELECT value FROM json_each(:seats)) AND d.outcome IS NULL AND d.target = 'bridge-daemon'
