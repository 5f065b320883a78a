-- Those without an answer; the sweep forgets what is over.
SELECT json_group_array(json_array({wait w}))
FROM waits w
WHERE w.workspace_id = :workspace_id
  AND NOT EXISTS (SELECT 1 FROM messages m WHERE m.in_reply_to = w.message_id AND m.sender <> w.asker)
