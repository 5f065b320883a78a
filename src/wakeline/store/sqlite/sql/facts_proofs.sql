SELECT json_group_array(json_array({proof}))
FROM proofs
WHERE workspace_id = :workspace_id AND route IN (SELECT value FROM json_each(:proofs))
