DELETE FROM messages WHERE thread_id = :thread_id
