SELECT DISTINCT {subscription k}
FROM subscription_keys x
JOIN subscriptions k ON k.subscription_id = x.subscription_id
WHERE x.workspace_id = :workspace_id AND x.handle = :handle AND x.trigger = :trigger AND x.active = 1
