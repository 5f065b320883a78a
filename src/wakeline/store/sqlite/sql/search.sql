SELECT {message m}
FROM words w
JOIN store.messages m ON m.number = w.rowid
WHERE words MATCH :words AND m.workspace_id = :workspace_id AND m.retracted_at IS NULL
  AND (:thread_id = '' OR m.thread_id = :thread_id)
  AND (:sender = '' OR m.sender = :sender)
  AND {visible m}
ORDER BY bm25(words), m.log_id DESC
LIMIT :limit
