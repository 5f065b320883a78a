SELECT {subscription} FROM subscriptions
WHERE workspace_id = :workspace_id AND (handle, subscription_id) > (:after_handle, :after_id) AND status <> 'retired'
ORDER BY handle, subscription_id
LIMIT :limit
