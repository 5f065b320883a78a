SELECT json_group_array(json_array({wake}))
FROM wakes
WHERE delivery_id IN (SELECT value FROM json_each(:deliveries)) AND workspace_id = :workspace_id
