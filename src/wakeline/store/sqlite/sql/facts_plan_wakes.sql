SELECT json_group_array(json_array({wake}))
FROM wakes
WHERE subscription_id IN (SELECT value FROM json_each(:plans))
  AND (state = 'waiting' OR state = 'held')
