SELECT json_group_array(json_array({wake w}))
FROM json_each(:wakes) AS asked
CROSS JOIN wakes w ON w.subscription_id = asked.value ->> 0 AND w.log_id = asked.value ->> 1
WHERE w.workspace_id = :workspace_id
