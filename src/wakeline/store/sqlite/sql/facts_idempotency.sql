SELECT json_group_array(json_array({idempotency i}))
FROM json_each(:idempotency) a
CROSS JOIN idempotency i ON i.workspace_id = :workspace_id AND i.sender = a.value ->> 0
  AND i.operation = a.value ->> 1 AND i.key = a.value ->> 2
