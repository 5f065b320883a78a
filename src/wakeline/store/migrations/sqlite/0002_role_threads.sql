-- Mail to a role is for its holders: who holds the role is in its standing thread, and nobody else is.  Whoever is not in
-- it sees what they sent and what was sent to them; glimpses are where that is.

ALTER TABLE threads ADD COLUMN role TEXT;
UPDATE threads SET role = substr(audience_key, 6) WHERE audience_key LIKE 'role:%';
-- A closed one has given up its key; its title and its first message still say whose it was.
UPDATE threads SET role = substr(title, 6)
WHERE status = 'closed' AND title LIKE 'role:%' AND EXISTS (
  SELECT 1 FROM messages m
  WHERE m.thread_id = threads.thread_id AND m.seq = 1 AND m.recipients = '["' || threads.title || '"]');
CREATE INDEX threads_of_roles ON threads (workspace_id, role, thread_id) WHERE role IS NOT NULL;

CREATE TABLE glimpses (
  thread_id TEXT NOT NULL,
  handle TEXT NOT NULL,
  workspace_id INTEGER NOT NULL,
  first_seq INTEGER NOT NULL,
  last_seq INTEGER NOT NULL,
  PRIMARY KEY (thread_id, handle, last_seq),
  CHECK (first_seq BETWEEN 1 AND last_seq)
) STRICT, WITHOUT ROWID;

-- Until now whoever wrote to a role was in its thread for good.
INSERT INTO glimpses (thread_id, handle, workspace_id, first_seq, last_seq)
SELECT k.thread_id, k.handle, k.workspace_id, 1, t.last_seq
FROM threads t
JOIN members k ON k.thread_id = t.thread_id AND k.left_at IS NULL
WHERE t.role IS NOT NULL AND t.last_seq > 0 AND NOT EXISTS (
  SELECT 1 FROM role_holders h WHERE h.workspace_id = t.workspace_id AND h.role = t.role AND h.handle = k.handle);
UPDATE members SET left_at = CAST(strftime('%s', 'now') AS INTEGER) * 1000000
WHERE left_at IS NULL AND EXISTS (
  SELECT 1 FROM glimpses g WHERE g.thread_id = members.thread_id AND g.handle = members.handle);
INSERT INTO members (thread_id, handle, workspace_id, joined_at, joined_seq, last_read_seq, left_at)
SELECT t.thread_id, h.handle, t.workspace_id, CAST(strftime('%s', 'now') AS INTEGER) * 1000000, t.last_seq + 1, 0, NULL
FROM threads t
JOIN role_holders h ON h.workspace_id = t.workspace_id AND h.role = t.role
WHERE true
ON CONFLICT (thread_id, handle) DO NOTHING;
