INSERT INTO deliveries ({delivery}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?,
  ?)
ON CONFLICT (delivery_id) DO UPDATE SET
  session_id = excluded.session_id, step = excluded.step, outcome = excluded.outcome, reason = excluded.reason,
  attempts = excluded.attempts, next_attempt_at = excluded.next_attempt_at, lease_owner = excluded.lease_owner,
  lease_until = excluded.lease_until, fence = excluded.fence, steps = excluded.steps, settled_at =
  excluded.settled_at
