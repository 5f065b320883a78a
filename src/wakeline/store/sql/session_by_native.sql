-- A session that runs was heard of lately, so walking the index from its end finds it among the first.
SELECT {session} FROM sessions
WHERE workspace_id = :workspace_id AND handle = :handle
  AND harness = :harness AND coalesce(native_id, '') = :native_id AND coalesce(host, '') = :host
ORDER BY heartbeat_at DESC
LIMIT 1
