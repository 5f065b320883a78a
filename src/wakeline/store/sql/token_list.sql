SELECT {token} FROM tokens
WHERE workspace_id = :workspace_id AND (:handle = '' OR handle = :handle)
ORDER BY issued_at DESC, jti
LIMIT 1000
