SELECT * FROM (
  SELECT workspace_id, subscription_id, log_id, delivery_id
  FROM wakes
  WHERE poke_at IS NOT NULL AND poke_at <= :now AND delivery_id IS NOT NULL
  ORDER BY poke_at
  LIMIT :limit
) due
UNION ALL
SELECT * FROM (
  SELECT workspace_id, subscription_id, log_id, delivery_id
  FROM wakes
  WHERE poke_at IS NOT NULL AND poke_at > :latest AND delivery_id IS NOT NULL
  ORDER BY poke_at
  LIMIT :limit
) distant
