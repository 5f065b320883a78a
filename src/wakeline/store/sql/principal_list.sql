SELECT {principal} FROM principals WHERE workspace_id = :workspace_id AND kind <> 'system' ORDER BY handle
