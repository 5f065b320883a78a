-- From the reader's own stretches to the messages in them, so that it costs what the reader has there and not what the
-- role has.  Stretches do not overlap, so the order of their ends is the order of their messages.
SELECT {message m}, {receipt r of m}
FROM glimpses g
CROSS JOIN messages m
LEFT JOIN receipts r ON r.log_id = m.log_id AND r.workspace_id = m.workspace_id AND r.recipient = :reader
WHERE g.thread_id = :thread_id AND g.handle = :reader AND g.last_seq > :since_seq
  AND m.thread_id = g.thread_id AND m.seq BETWEEN g.first_seq AND g.last_seq AND m.seq > :since_seq
  AND {visible m}
ORDER BY g.last_seq, m.seq
LIMIT :limit
