-- A row that the matcher could meet again must stay: it is what keeps an event from being matched twice.
DELETE FROM wakes
WHERE updated_at < :before AND (state = 'rung' OR state = 'dropped' OR state = 'next_turn')
  AND log_id <= (SELECT c.last_log_id FROM consumers c WHERE c.workspace_id = wakes.workspace_id AND c.name = 'matcher')
