-- All that are open: limits count them together.
SELECT json_group_array(json_array({activation}))
FROM activations
WHERE workspace_id + 0 = :workspace_id AND result IS NULL
