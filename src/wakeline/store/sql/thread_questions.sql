-- `core/summary.py` says what a question is; here it is said so that the newest can be found in a long thread.
SELECT {message m}
FROM messages m
WHERE m.thread_id = :thread_id AND {visible m}
  AND m.kind = 'chat' AND rtrim(m.body, :blanks) LIKE '%?'
  AND m.retracted_at IS NULL AND m.superseded_by IS NULL AND (m.expires_at IS NULL OR m.expires_at > :now)
  AND NOT EXISTS (
    SELECT 1 FROM messages a
    WHERE a.in_reply_to = m.message_id AND a.thread_id = :thread_id AND a.sender <> m.sender AND {visible a})
ORDER BY m.seq DESC
LIMIT :limit
