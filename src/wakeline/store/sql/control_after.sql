-- One statement, so one moment: what was pruned before it is below the first row that it tells of.
SELECT {workspace w}, {log l}
FROM workspaces w
LEFT JOIN log l ON l.workspace_id = w.workspace_id AND l.log_id > :after
  AND l.kind IN (
    'token.revoked', 'agent.changed', 'subscription.created', 'delivery.planned', 'delivery.unwanted', 'activation.planned')
WHERE w.workspace_id = :workspace_id
ORDER BY l.log_id
LIMIT :limit
