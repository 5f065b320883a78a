INSERT INTO role_holders (workspace_id, role, handle)
SELECT guard.workspace_id, item ->> 0, item ->> 1
FROM guard, jsonb_array_elements(:batch -> 'role_holders') AS items (item)
ON CONFLICT DO NOTHING
