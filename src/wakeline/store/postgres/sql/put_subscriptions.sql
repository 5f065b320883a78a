INSERT INTO subscriptions ({subscription})
SELECT {subscription from item} FROM guard, jsonb_array_elements(:batch -> 'subscriptions') AS items (item)
ON CONFLICT (subscription_id) DO UPDATE SET
  trigger = excluded.trigger, filters = excluded.filters, route_key = excluded.route_key, target =
  excluded.target, url = excluded.url, coalesce_window = excluded.coalesce_window, metadata = excluded.metadata,
  wake_policy = excluded.wake_policy, signing_key = excluded.signing_key, previous_key = excluded.previous_key,
  previous_key_until = excluded.previous_key_until, status = excluded.status, status_reason =
  excluded.status_reason, failures = excluded.failures, from_log_id = excluded.from_log_id, updated_at =
  excluded.updated_at, rung_at = excluded.rung_at, first_queued_at = excluded.first_queued_at, flush_at =
  excluded.flush_at, events = excluded.events, rings = excluded.rings, coalesced = excluded.coalesced,
  window_used = excluded.window_used, latency_total = excluded.latency_total, latency_most =
  excluded.latency_most, confirmed = excluded.confirmed
