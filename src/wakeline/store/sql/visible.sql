-- The one rule of who reads a message: whoever reads everything or is in the thread now; whoever sent it; whoever it was
-- brought to.  `core/policy.py` says the same where decisions are made.  Every part is one lookup by a primary key.
(:everything OR m.sender = :reader
  OR EXISTS (SELECT 1 FROM members k WHERE k.thread_id = m.thread_id AND k.handle = :reader AND k.left_at IS NULL)
  OR EXISTS (SELECT 1 FROM receipts v WHERE v.log_id = m.log_id AND v.workspace_id = m.workspace_id AND v.recipient = :reader))
