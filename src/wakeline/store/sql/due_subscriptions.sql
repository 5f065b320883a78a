SELECT workspace_id, subscription_id, subscription_id, handle, flush_at
FROM subscriptions
WHERE flush_at IS NOT NULL AND flush_at <= :until
ORDER BY flush_at
LIMIT :limit
