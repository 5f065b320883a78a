SELECT {dead_letter} FROM dead_letters
WHERE workspace_id = :workspace_id AND (:sender = '' OR sender = :sender)
  AND (:only_open = 0 OR redriven_at IS NULL)
ORDER BY dead_letter_id DESC
LIMIT :limit
