INSERT INTO members ({member})
SELECT {member from item} FROM guard, jsonb_array_elements(:batch -> 'members') AS items (item)
ON CONFLICT (thread_id, handle) DO UPDATE SET
  joined_at = excluded.joined_at, joined_seq = excluded.joined_seq, left_at = excluded.left_at,
  session_id = excluded.session_id,
  last_read_seq = greatest(members.last_read_seq, excluded.last_read_seq)
