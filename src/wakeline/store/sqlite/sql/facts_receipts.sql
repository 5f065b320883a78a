-- (message id, recipient) pairs.  CROSS JOIN keeps the written order: from the pairs to their rows, by index.
SELECT json_group_array(json_array({receipt r}))
FROM json_each(:receipts) a
CROSS JOIN messages m ON m.message_id = a.value ->> 0 AND m.workspace_id = :workspace_id
CROSS JOIN receipts r ON r.thread_id = m.thread_id AND r.seq = m.seq AND r.recipient = a.value ->> 1
