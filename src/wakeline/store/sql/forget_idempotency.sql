DELETE FROM idempotency
WHERE workspace_id = :workspace_id AND subject IN (SELECT message_id FROM messages WHERE thread_id = :thread_id)
