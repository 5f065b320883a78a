INSERT INTO threads ({thread}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
ON CONFLICT (thread_id) DO UPDATE SET
  status = excluded.status, title = excluded.title, audience_key = excluded.audience_key,
  coordinator = excluded.coordinator, escalation_owner = excluded.escalation_owner,
  last_seq = max(last_seq, excluded.last_seq), updated_at = excluded.updated_at, closed_at = excluded.closed_at,
  turns = excluded.turns, repeats = excluded.repeats, last_sender = excluded.last_sender,
  last_digest = excluded.last_digest, flips = excluded.flips, changed_by = excluded.changed_by,
  changed_from = excluded.changed_from
