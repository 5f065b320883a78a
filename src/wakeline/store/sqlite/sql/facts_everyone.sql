SELECT json_group_array(json_array({principal})) FROM principals WHERE workspace_id = :workspace_id
