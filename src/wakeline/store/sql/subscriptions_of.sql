SELECT {subscription} FROM subscriptions
WHERE workspace_id = :workspace_id AND handle = :handle AND subscription_id > :after_id AND status <> 'retired'
ORDER BY subscription_id
LIMIT :limit
