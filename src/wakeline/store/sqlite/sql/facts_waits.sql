SELECT json_group_array(json_array({wait})) FROM waits WHERE workspace_id = :workspace_id
