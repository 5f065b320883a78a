INSERT INTO role_holders (workspace_id, role, handle) VALUES (?, ?, ?)
