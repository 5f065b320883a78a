-- All of their members, as with every thread that is brought.
SELECT json_group_array(json_array({member m}))
FROM threads t INDEXED BY threads_of_roles
CROSS JOIN members m ON m.thread_id = t.thread_id
WHERE t.workspace_id = :workspace_id AND t.role IS NOT NULL
  AND (t.role IN (SELECT value ->> 1 FROM json_each(:role_threads_of)) OR EXISTS (
    SELECT 1 FROM json_each(:role_threads_of) a
    JOIN principals p ON p.workspace_id = :workspace_id AND p.handle = a.value ->> 0
    WHERE ' ' || p.roles || ' ' LIKE '% ' || t.role || ' %'))
