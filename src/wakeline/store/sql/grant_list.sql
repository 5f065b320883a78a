SELECT {grant} FROM grants
WHERE workspace_id = :workspace_id AND revoked_at IS NULL AND (:party = '' OR grantee = :party OR owner = :party)
ORDER BY scope, grantee, owner
LIMIT 1000
