-- Takes whole thread rows, of which only the end moved.
-- The array, which repeats the join, makes the planner go by the index whatever it thinks of the table's size.
UPDATE threads t SET last_seq = greatest(t.last_seq, (item ->> 9)::bigint), updated_at = (item ->> 11)::bigint,
  turns = (item ->> 14)::bigint, repeats = (item ->> 15)::bigint, last_sender = item ->> 16, last_digest = item ->> 17,
  flips = (item ->> 18)::bigint, changed_by = item ->> 19, changed_from = item ->> 20
FROM guard, jsonb_array_elements(:batch -> 'thread_tails') AS items (item)
WHERE t.thread_id = item ->> 0
  AND t.thread_id = ANY (ARRAY(SELECT tail ->> 0 FROM jsonb_array_elements(:batch -> 'thread_tails') AS tails (tail)))
