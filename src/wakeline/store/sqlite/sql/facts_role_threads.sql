-- Of all threads of roles, which are few, those of the roles that are named or held.
SELECT json_group_array(json_array({thread}))
FROM threads INDEXED BY threads_of_roles
WHERE workspace_id = :workspace_id AND role IS NOT NULL
  AND (role IN (SELECT value ->> 1 FROM json_each(:role_threads_of)) OR EXISTS (
    SELECT 1 FROM json_each(:role_threads_of) a
    JOIN principals p ON p.workspace_id = :workspace_id AND p.handle = a.value ->> 0
    WHERE ' ' || p.roles || ' ' LIKE '% ' || threads.role || ' %'))
