SELECT k.subscription_id
FROM subscriptions k
WHERE k.workspace_id = :workspace_id AND k.handle = :handle AND k.status <> 'retired'
  AND (
    EXISTS (
      SELECT 1 FROM wakes w
      WHERE w.subscription_id = k.subscription_id AND (w.state = 'waiting' OR w.state = 'held'))
    OR EXISTS (
      SELECT 1 FROM deliveries d
      WHERE d.subscription_id = k.subscription_id AND d.outcome IS NULL AND k.target = 'bridge-daemon'))
