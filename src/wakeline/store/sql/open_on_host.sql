SELECT DISTINCT k.subscription_id
FROM sessions s
JOIN subscriptions k ON k.workspace_id = s.workspace_id AND k.handle = s.handle AND k.status <> 'retired'
WHERE s.workspace_id = :workspace_id AND s.host = :host AND s.ended_at IS NULL AND s.host IS NOT NULL
  AND EXISTS (
    SELECT 1 FROM wakes w
    WHERE w.subscription_id = k.subscription_id AND (w.state = 'waiting' OR w.state = 'held'))
