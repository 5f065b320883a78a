SELECT m.sender, count(*), min(m.seq), min(m.created_at), max(m.created_at)
FROM messages m
WHERE m.thread_id = :thread_id AND {visible m}
GROUP BY m.sender
