SELECT
  (SELECT count(*) FROM principals WHERE workspace_id = :workspace_id AND kind = 'agent' AND retired_at IS NULL),
  (SELECT count(*) FROM threads WHERE workspace_id = :workspace_id),
  (SELECT CAST(coalesce(sum(last_seq), 0) AS BIGINT) FROM threads WHERE workspace_id = :workspace_id),
  (SELECT count(*) FROM dead_letters WHERE workspace_id = :workspace_id AND redriven_at IS NULL)
