-- INDEXED BY: the primary key would do too, and reads what was rung long ago.
SELECT json_group_array(json_array({wake}))
FROM wakes INDEXED BY wakes_open
WHERE subscription_id IN (SELECT value FROM json_each(:plans))
  AND (state = 'waiting' OR state = 'held')
