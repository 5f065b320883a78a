SELECT json_group_array(json_array({bridge}))
FROM bridges
WHERE workspace_id = :workspace_id AND host IN (
  SELECT host FROM sessions
  WHERE workspace_id = :workspace_id AND handle IN (SELECT value FROM json_each(:bridges_of)) AND ended_at IS NULL)
