SELECT {cursor} FROM cursors
WHERE workspace_id = :workspace_id AND consumer_id = :consumer_id AND stream_name = :stream_name
  AND subject_id = :subject_id
