-- The plus keeps the planner from going through the whole workspace for the sake of the order.
SELECT delivery_id, subscription_id, coalesce(session_id, '') FROM deliveries
WHERE event_id = :event_id AND +workspace_id = :workspace_id AND target = 'bridge-daemon'
ORDER BY delivery_id
