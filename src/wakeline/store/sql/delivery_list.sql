SELECT {delivery} FROM deliveries
WHERE workspace_id = :workspace_id
  AND (:handle = '' OR handle = :handle)
  AND (:subscription_id = '' OR subscription_id = :subscription_id)
  AND (:outcome = '' OR outcome = :outcome OR (:outcome = 'open' AND outcome IS NULL))
  AND (:before = '' OR delivery_id < :before)
ORDER BY delivery_id DESC
LIMIT :limit
