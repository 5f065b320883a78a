DELETE FROM receipts WHERE thread_id = :thread_id
