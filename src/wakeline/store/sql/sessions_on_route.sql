SELECT {session} FROM sessions
WHERE workspace_id = :workspace_id AND harness = :harness AND transport = :transport AND harness_version = :version
  AND ended_at IS NULL
