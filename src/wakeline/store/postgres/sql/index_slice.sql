-- A message that is being forgotten meanwhile is locked by who deletes it: it is waited for and then left out.
-- What is longer than any default limit is indexed by its beginning, because a tsvector holds one megabyte.
WITH
slice AS MATERIALIZED (
  SELECT log_id, subject, kind FROM log
  WHERE workspace_id = :workspace_id AND log_id > :after
  ORDER BY log_id
  LIMIT :limit
),
found AS MATERIALIZED (
  SELECT m.number, coalesce(m.subject || ' ', '')
    || CASE WHEN octet_length(m.body) <= 262144 THEN m.body ELSE left(m.body, 65536) END AS words
  FROM slice s
  JOIN messages m ON m.message_id = s.subject
  WHERE s.kind = 'message.posted'
  FOR KEY SHARE OF m
),
indexed AS (
  INSERT INTO search_index (number, words)
  SELECT number, to_tsvector('simple', regexp_replace(words, :breaks, ' ', 'g')) FROM found
  ON CONFLICT (number) DO NOTHING
  RETURNING number
)
SELECT (SELECT coalesce(max(log_id), :after) FROM slice), (SELECT count(*) FROM indexed)
