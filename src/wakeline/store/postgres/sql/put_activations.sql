INSERT INTO activations ({activation})
SELECT {activation from item} FROM guard, jsonb_array_elements(:batch -> 'activations') AS items (item)
ON CONFLICT (activation_id) DO UPDATE SET
  session_id = coalesce(excluded.session_id, activations.session_id),
  result = excluded.result, reason = excluded.reason, lease_owner = excluded.lease_owner,
  lease_until = excluded.lease_until, fence = excluded.fence, pid = excluded.pid,
  pid_started_at = excluded.pid_started_at, exit_status = excluded.exit_status, output = excluded.output,
  stop_asked_by = excluded.stop_asked_by, started_at = excluded.started_at, settled_at = excluded.settled_at
