INSERT INTO dead_letters ({dead_letter})
SELECT {dead_letter from item} FROM guard, jsonb_array_elements(:batch -> 'dead_letters') AS items (item)
ON CONFLICT (dead_letter_id) DO UPDATE SET
  attempts = excluded.attempts, redriven_at = excluded.redriven_at, message_id = excluded.message_id
