SELECT {member} FROM members WHERE thread_id = :thread_id AND left_at IS NULL ORDER BY joined_seq, handle
