SELECT json_group_array(json_array({receipt r}))
FROM json_each(:receipts_of) a
CROSS JOIN messages m ON m.message_id = a.value AND m.workspace_id = :workspace_id
CROSS JOIN receipts r ON r.thread_id = m.thread_id AND r.seq = m.seq
