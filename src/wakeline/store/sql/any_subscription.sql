SELECT 1 FROM subscription_keys WHERE workspace_id = :workspace_id LIMIT 1
