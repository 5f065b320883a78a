SELECT w.subscription_id, w.state, w.reason, count(*), min(w.until)
FROM subscriptions k
JOIN wakes w ON w.subscription_id = k.subscription_id
LEFT JOIN receipts r ON r.log_id = w.log_id AND r.workspace_id = w.workspace_id AND r.recipient = w.handle
WHERE k.workspace_id = :workspace_id AND k.handle = :handle AND k.status <> 'retired'
  AND (w.state = 'waiting' OR w.state = 'held' OR w.state = 'next_turn')
  AND (w.message_id IS NULL OR (r.box = 0 AND (r.expires_at IS NULL OR r.expires_at > :now)))
GROUP BY w.subscription_id, w.state, w.reason
