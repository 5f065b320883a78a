DELETE FROM glimpses WHERE thread_id = :thread_id
