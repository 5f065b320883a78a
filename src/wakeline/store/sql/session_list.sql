SELECT {session} FROM sessions
WHERE workspace_id = :workspace_id AND (:handle = '' OR handle = :handle)
  AND (:with_ended = 1 OR ended_at IS NULL) AND heartbeat_at >= :since
ORDER BY heartbeat_at DESC, session_id
LIMIT :limit
