SELECT json_group_array(json_array({receipt r of w}))
FROM wakes w INDEXED BY wakes_open
CROSS JOIN receipts r ON r.log_id = w.log_id AND r.workspace_id = w.workspace_id AND r.recipient = w.handle
WHERE w.subscription_id IN (SELECT value FROM json_each(:plans))
  AND (w.state = 'waiting' OR w.state = 'held')
