SELECT k.subscription_id
FROM subscriptions k
WHERE k.workspace_id = :workspace_id AND k.handle = :handle AND k.status <> 'retired'
  AND EXISTS (
    SELECT 1 FROM wakes w
    WHERE w.subscription_id = k.subscription_id AND (w.state = 'waiting' OR w.state = 'held'))
