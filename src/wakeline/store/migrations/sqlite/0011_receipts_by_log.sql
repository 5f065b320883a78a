-- Receipts in the order of the log: those of one moment share pages, where by thread each post wrote one of its own.
-- What is asked of them begins with a message, or leads to one, by its log_id; the message knows its thread and seq.
CREATE TABLE receipts_by_log (
  recipient TEXT NOT NULL,
  workspace_id INTEGER NOT NULL,
  log_id INTEGER NOT NULL,
  rank INTEGER NOT NULL CHECK (rank BETWEEN 0 AND 2),
  expires_at INTEGER,
  box INTEGER NOT NULL CHECK (box BETWEEN 0 AND 3),
  seen_at INTEGER,
  read_at INTEGER,
  archived_at INTEGER,
  lapsed TEXT CHECK (lapsed = 'expired' OR lapsed = 'retracted' OR lapsed = 'superseded'),
  PRIMARY KEY (log_id, workspace_id, recipient),
  CHECK (read_at IS NULL OR seen_at IS NOT NULL),
  CHECK (box <> 0 OR read_at IS NULL)
) STRICT, WITHOUT ROWID;
INSERT INTO receipts_by_log
SELECT recipient, workspace_id, log_id, rank, expires_at, box, seen_at, read_at, archived_at, lapsed
FROM receipts
ORDER BY log_id, workspace_id, recipient;
DROP TABLE receipts;
ALTER TABLE receipts_by_log RENAME TO receipts;
CREATE INDEX receipts_by_box ON receipts (workspace_id, recipient, box, rank, log_id, expires_at);
CREATE INDEX receipts_expiring ON receipts (expires_at) WHERE box = 0 AND expires_at IS NOT NULL;
CREATE UNIQUE INDEX messages_by_log ON messages (log_id, workspace_id);
