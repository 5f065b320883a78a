-- Takes a whole subscription row, of which nothing changed but what it counts and when it is looked at.  A row has to be
-- used whole.
UPDATE subscriptions SET
  failures = ?17, rung_at = ?21, first_queued_at = ?22, flush_at = ?23, events = ?24, rings = ?25, coalesced =
  ?26, window_used = ?27, latency_total = ?28, latency_most = ?29, confirmed = ?30
WHERE subscription_id = ?1
