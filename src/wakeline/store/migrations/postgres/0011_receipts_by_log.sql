-- Receipts by the log: new ones come at one end of the index, where by thread each came somewhere else.
-- What is asked of them begins with a message, or leads to one, by its log_id; the message knows its thread and seq.
ALTER TABLE receipts DROP CONSTRAINT receipts_pkey, DROP COLUMN thread_id, DROP COLUMN seq;
ALTER TABLE receipts ADD PRIMARY KEY (log_id, workspace_id, recipient);
CREATE UNIQUE INDEX messages_by_log ON messages (log_id, workspace_id);
