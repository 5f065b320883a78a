SELECT {principal} FROM principals WHERE workspace_id = :workspace_id AND handle = :handle
