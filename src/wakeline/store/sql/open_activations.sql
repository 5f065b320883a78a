SELECT {activation} FROM activations
WHERE workspace_id + 0 = :workspace_id AND host = :host AND result IS NULL
ORDER BY activation_id
LIMIT :limit
