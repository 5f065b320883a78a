DELETE FROM role_holders WHERE workspace_id = ? AND handle = ?
