SELECT {log} FROM log
WHERE workspace_id = :workspace_id AND log_id > :after AND log_id <= :until
  AND kind IN (
    'token.revoked', 'agent.changed', 'subscription.created', 'delivery.planned', 'delivery.unwanted', 'activation.planned')
ORDER BY log_id
LIMIT :limit
