DELETE FROM receipts
WHERE (log_id, workspace_id) IN (SELECT m.log_id, m.workspace_id FROM messages m WHERE m.thread_id = :thread_id)
