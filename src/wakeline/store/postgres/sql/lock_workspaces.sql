-- In order of their ids, so that two nodes never wait for one another.  None named: all of them.
WITH locked AS MATERIALIZED (
  SELECT workspace_id FROM workspaces
  WHERE :workspace_ids::bigint[] = '{}' OR workspace_id = ANY (:workspace_ids::bigint[])
  ORDER BY workspace_id
  FOR UPDATE
)
UPDATE workspaces w SET version = version + 1 FROM locked WHERE w.workspace_id = locked.workspace_id
