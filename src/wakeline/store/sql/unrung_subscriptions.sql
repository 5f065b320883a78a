-- From one subscription to the next through the index of open wakes: however many one of them holds, it is one step.
WITH RECURSIVE unrung (subscription_id) AS (
  SELECT min(subscription_id) FROM wakes WHERE (state = 'waiting' OR state = 'held') AND subscription_id > :after
  UNION ALL
  SELECT (
    SELECT min(w.subscription_id) FROM wakes w
    WHERE (w.state = 'waiting' OR w.state = 'held') AND w.subscription_id > u.subscription_id)
  FROM unrung u
  WHERE u.subscription_id IS NOT NULL
)
SELECT k.workspace_id, k.subscription_id, k.handle,
  CASE
    WHEN k.status <> 'active' OR k.flush_at <= :soon THEN 0
    WHEN EXISTS (SELECT 1 FROM deliveries d WHERE d.subscription_id = k.subscription_id AND d.outcome IS NULL) THEN 0
    ELSE 1
  END
FROM (SELECT subscription_id FROM unrung WHERE subscription_id IS NOT NULL LIMIT :limit) u
JOIN subscriptions k ON k.subscription_id = u.subscription_id
ORDER BY k.subscription_id
