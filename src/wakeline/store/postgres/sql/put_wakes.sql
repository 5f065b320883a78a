INSERT INTO wakes ({wake})
SELECT {wake from item} FROM guard, jsonb_array_elements(:batch -> 'wakes') AS items (item)
ON CONFLICT (subscription_id, log_id) DO UPDATE SET
  session_id = excluded.session_id, state = excluded.state, reason = excluded.reason, until = excluded.until,
  delivery_id = excluded.delivery_id, updated_at = excluded.updated_at, rings = excluded.rings,
  poke_at = excluded.poke_at, unsure_at = excluded.unsure_at
