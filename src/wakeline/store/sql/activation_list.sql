SELECT {activation} FROM activations
WHERE workspace_id = :workspace_id
  AND (:handle = '' OR handle = :handle)
  AND (:result = '' OR result = :result OR (:result = 'open' AND result IS NULL))
  AND (:before = '' OR activation_id < :before)
ORDER BY activation_id DESC
LIMIT :limit
