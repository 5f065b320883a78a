SELECT {refusal} FROM refusals WHERE workspace_id = :workspace_id ORDER BY minute DESC, handle, rule LIMIT :limit
