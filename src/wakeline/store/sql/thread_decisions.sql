-- `core/summary.py` says what a decision is; here it is said so that the newest can be found in a long thread.
SELECT {message m}
FROM messages m
WHERE m.thread_id = :thread_id AND {visible m}
  AND m.retracted_at IS NULL AND m.superseded_by IS NULL AND (m.expires_at IS NULL OR m.expires_at > :now)
  AND CASE WHEN m.kind = 'system' THEN m.metadata LIKE '%"status_changed"%' ELSE
    m.tags LIKE '%"decision"%'
    OR (lower(substr(ltrim(m.body, :blanks), 1, 8)) = 'decision'
        AND substr(ltrim(substr(ltrim(m.body, :blanks), 9), :blanks), 1, 1) IN (':', '-'))
    OR (lower(substr(ltrim(m.body, :blanks), 1, 7)) = 'decided'
        AND substr(ltrim(substr(ltrim(m.body, :blanks), 8), :blanks), 1, 1) IN (':', '-'))
    OR (lower(substr(ltrim(m.body, :blanks), 1, 6)) = 'agreed'
        AND substr(ltrim(substr(ltrim(m.body, :blanks), 7), :blanks), 1, 1) IN (':', '-'))
    END
ORDER BY m.seq DESC
LIMIT :limit
