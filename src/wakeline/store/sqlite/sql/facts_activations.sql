SELECT json_group_array(json_array({activation}))
FROM activations
WHERE activation_id IN (SELECT value FROM json_each(:activations)) AND workspace_id + 0 = :workspace_id
