-- What is under way for these subscriptions, and what failed of that which waits to ring again: it goes out as it was.
SELECT json_group_array(json_array({delivery}))
FROM deliveries
WHERE (subscription_id IN (SELECT value FROM json_each(:plans)) AND outcome IS NULL)
  OR (outcome = 'failed' AND target <> 'bridge-daemon' AND delivery_id IN (
    SELECT delivery_id FROM wakes INDEXED BY wakes_open
    WHERE subscription_id IN (SELECT value FROM json_each(:plans)) AND (state = 'waiting' OR state = 'held')
      AND delivery_id IS NOT NULL))
