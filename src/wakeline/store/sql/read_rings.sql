SELECT DISTINCT d.subscription_id
FROM log l
JOIN subscriptions k ON k.workspace_id = l.workspace_id AND k.handle = l.actor AND k.target = 'bridge-daemon'
JOIN deliveries d ON d.subscription_id = k.subscription_id AND d.outcome IS NULL
WHERE l.workspace_id = :workspace_id AND l.log_id > :after AND l.log_id <= :until
  AND l.kind IN ('inbox.acked', 'inbox.archived', 'thread.acked')
