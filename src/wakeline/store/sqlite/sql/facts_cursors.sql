SELECT json_group_array(json_array({cursor c}))
FROM json_each(:cursors) AS asked
CROSS JOIN cursors c ON c.workspace_id = :workspace_id AND c.consumer_id = asked.value ->> 0
  AND c.stream_name = asked.value ->> 1 AND c.subject_id = asked.value ->> 2
