SELECT json_group_array(json_array({receipt r}))
FROM wakes w INDEXED BY wakes_open
CROSS JOIN receipts r ON r.thread_id = w.thread_id AND r.seq = w.seq AND r.recipient = w.handle
WHERE w.subscription_id IN (SELECT value FROM json_each(:plans))
  AND (w.state = 'waiting' OR w.state = 'held')
