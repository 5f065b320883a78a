SELECT {session} FROM sessions
WHERE workspace_id = :workspace_id AND host = :host AND ended_at IS NULL AND host IS NOT NULL
ORDER BY session_id
LIMIT :limit
