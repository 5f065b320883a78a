SELECT {subscription} FROM subscriptions WHERE workspace_id = :workspace_id AND subscription_id = :subscription_id
