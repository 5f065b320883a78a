SELECT json_group_array(json_array({delivery}))
FROM deliveries
WHERE +workspace_id = :workspace_id AND delivery_id IN (SELECT value FROM json_each(:deliveries))
