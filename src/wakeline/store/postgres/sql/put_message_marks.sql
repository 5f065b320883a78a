-- Takes whole message rows; a message's text never changes, only what happened to it afterwards.
-- The array, which repeats the join, makes the planner go by the index whatever it thinks of the table's size.
UPDATE messages m SET superseded_by = item ->> 21, retracted_at = (item ->> 22)::bigint,
  awaited = (item ->> 25)::bigint
FROM guard, jsonb_array_elements(:batch -> 'message_marks') AS items (item)
WHERE m.message_id = item ->> 0
  AND m.message_id = ANY (ARRAY(SELECT mark ->> 0 FROM jsonb_array_elements(:batch -> 'message_marks') AS marks (mark)))
