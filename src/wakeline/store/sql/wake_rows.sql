SELECT {log} FROM log
WHERE workspace_id = :workspace_id AND log_id > :after AND log_id <= :until
  AND kind IN (
    'grant.added', 'task.state_changed', 'notice.assigned', 'heartbeat.pulse',
    'session.started', 'session.changed', 'session.ended', 'agent.changed')
ORDER BY log_id
