SELECT workspace_id, message_id
FROM messages
WHERE awaited = 1 AND answer_by <= :now
ORDER BY answer_by
LIMIT :limit
