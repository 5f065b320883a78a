SELECT {delivery} FROM deliveries WHERE workspace_id = :workspace_id AND delivery_id = :delivery_id
