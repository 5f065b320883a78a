DELETE FROM dead_letters
WHERE workspace_id = :workspace_id AND sender = :sender AND dead_letter_id IN (
  SELECT dead_letter_id FROM dead_letters
  WHERE workspace_id = :workspace_id AND sender = :sender
  ORDER BY dead_letter_id DESC
  LIMIT 1000000 OFFSET :keep)
