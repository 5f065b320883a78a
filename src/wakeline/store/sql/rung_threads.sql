SELECT DISTINCT w.thread_id
FROM deliveries d
JOIN wakes w ON w.delivery_id = d.delivery_id AND w.delivery_id IS NOT NULL
WHERE d.event_id = :event_id AND d.workspace_id = :workspace_id AND d.target = 'bridge-daemon'
  AND w.thread_id IS NOT NULL
ORDER BY w.thread_id
