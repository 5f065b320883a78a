INSERT INTO dead_letters ({dead_letter}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
ON CONFLICT (dead_letter_id) DO UPDATE SET
  attempts = excluded.attempts, redriven_at = excluded.redriven_at, message_id = excluded.message_id
