-- An agent's newest session stays, and the newest that could be resumed: a dormant agent is brought back as that.
DELETE FROM sessions
WHERE workspace_id = :workspace_id AND ended_at < :before
  AND EXISTS (
    SELECT 1 FROM sessions s
    WHERE s.workspace_id = sessions.workspace_id AND s.handle = sessions.handle
      AND s.heartbeat_at >= sessions.heartbeat_at
      AND (s.heartbeat_at > sessions.heartbeat_at OR s.session_id > sessions.session_id)
      AND (sessions.resumable = 0 OR (s.resumable = 1 AND s.host IS NOT NULL AND s.native_id IS NOT NULL)))
  AND NOT EXISTS (SELECT 1 FROM deliveries d WHERE d.session_id = sessions.session_id AND d.outcome IS NULL)
  AND NOT EXISTS (
    SELECT 1 FROM activations a
    WHERE a.workspace_id + 0 = :workspace_id AND a.result IS NULL AND a.session_id = sessions.session_id)
  AND session_id NOT IN (
    SELECT w.session_id FROM wakes w
    WHERE w.workspace_id = :workspace_id AND w.session_id IS NOT NULL
      AND (w.state = 'waiting' OR w.state = 'held' OR w.state = 'next_turn' OR w.state = 'ringing'))
