WITH asked AS MATERIALIZED (
  SELECT string_agg('(' || phrase::text || ')', ' & ')::tsquery AS words
  FROM unnest(:phrases::text[]) AS given (text),
    phraseto_tsquery('simple', regexp_replace(text, :breaks, ' ', 'g')) AS phrase
  WHERE numnode(phrase) > 0
)
SELECT {message m}
FROM search_index s
JOIN messages m ON m.number = s.number
WHERE s.words @@ (SELECT words FROM asked) AND m.workspace_id = :workspace_id AND m.retracted_at IS NULL
  AND (:thread_id = '' OR m.thread_id = :thread_id)
  AND (:sender = '' OR m.sender = :sender)
  AND {visible m}
ORDER BY ts_rank(s.words, (SELECT words FROM asked)) DESC, m.log_id DESC
LIMIT :limit
