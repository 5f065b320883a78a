INSERT INTO members ({member}) VALUES (?, ?, ?, ?, ?, ?, ?, ?)
ON CONFLICT (thread_id, handle) DO UPDATE SET
  joined_at = excluded.joined_at, joined_seq = excluded.joined_seq, left_at = excluded.left_at,
  session_id = excluded.session_id,
  last_read_seq = max(last_read_seq, excluded.last_read_seq)
