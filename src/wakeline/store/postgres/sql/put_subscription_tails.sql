-- Takes whole subscription rows, of which nothing changed but what they count and when they are looked at.
-- The array, which repeats the join, makes the planner go by the index whatever it thinks of the table's size.
UPDATE subscriptions s SET
  failures = (item ->> 16)::bigint, rung_at = (item ->> 20)::bigint, first_queued_at = (item ->> 21)::bigint,
  flush_at = (item ->> 22)::bigint, events = (item ->> 23)::bigint, rings = (item ->> 24)::bigint, coalesced =
  (item ->> 25)::bigint, window_used = (item ->> 26)::bigint, latency_total = (item ->> 27)::bigint, latency_most
  = (item ->> 28)::bigint, confirmed = (item ->> 29)::bigint
FROM guard, jsonb_array_elements(:batch -> 'subscription_tails') AS items (item)
WHERE s.subscription_id = item ->> 0
  AND s.subscription_id = ANY (ARRAY(
    SELECT tail ->> 0 FROM jsonb_array_elements(:batch -> 'subscription_tails') AS tails (tail)))
