SELECT {subscription} FROM subscriptions
WHERE subscription_id = :subscription_id AND workspace_id = :workspace_id AND status <> 'retired'
