-- Of the hosts whose sessions these subscriptions might wake.
SELECT json_group_array(json_array({bridge}))
FROM bridges
WHERE workspace_id = :workspace_id AND host IN (
  SELECT s.host FROM subscriptions k
  CROSS JOIN sessions s ON s.workspace_id = k.workspace_id AND s.handle = k.handle
  WHERE k.subscription_id IN (SELECT value FROM json_each(:seats)) AND s.ended_at IS NULL)
