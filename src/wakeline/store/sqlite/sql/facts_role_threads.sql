-- All of the workspace: each role has one, and perhaps some that were closed.
SELECT json_group_array(json_array({thread}))
FROM threads INDEXED BY threads_of_roles
WHERE workspace_id = :workspace_id AND role IS NOT NULL
