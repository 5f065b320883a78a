SELECT {receipt} FROM receipts WHERE thread_id = :thread_id AND seq = :seq ORDER BY recipient
