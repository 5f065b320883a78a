SELECT {mandate} FROM mandates WHERE workspace_id = :workspace_id AND handle = :handle
