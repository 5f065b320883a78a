SELECT DISTINCT x.subscription_id
FROM subscription_keys x
JOIN subscriptions k ON k.subscription_id = x.subscription_id
WHERE x.workspace_id = :workspace_id AND x.handle = :handle AND x.trigger = 'SENT_TO_ME' AND x.active = 1
  AND k.target <> 'mcp-notifications'
LIMIT :limit
