SELECT {block} FROM blocks
WHERE workspace_id = :workspace_id AND lifted_at IS NULL AND (:party = '' OR blocker = :party)
ORDER BY blocker, blocked
LIMIT 1000
