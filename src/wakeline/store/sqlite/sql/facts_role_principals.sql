SELECT json_group_array(json_array({principal}))
FROM principals
WHERE workspace_id = :workspace_id AND handle IN (
  SELECT handle FROM role_holders
  WHERE workspace_id = :workspace_id AND role IN (SELECT value FROM json_each(:roles)))
