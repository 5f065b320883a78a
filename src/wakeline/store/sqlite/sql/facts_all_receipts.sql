SELECT json_group_array(json_array({receipt r of m}))
FROM json_each(:receipts_of) a
CROSS JOIN messages m ON m.message_id = a.value AND m.workspace_id = :workspace_id
CROSS JOIN receipts r ON r.log_id = m.log_id AND r.workspace_id = m.workspace_id
