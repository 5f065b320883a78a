-- Takes the workspace's row, waiting for whoever holds it, and looks again at the version once it has it.  No row comes
-- back when another node has written since the facts were loaded, and then nothing below finds anything to write.
UPDATE workspaces SET last_log_id = (:batch::jsonb ->> 'last_log_id')::bigint, version = version + 1
WHERE workspace_id = (:batch::jsonb ->> 'workspace_id')::bigint AND version = (:batch::jsonb ->> 'version')::bigint
RETURNING workspace_id
