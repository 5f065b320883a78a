INSERT INTO buckets ({bucket}) VALUES (?, ?, ?, ?)
ON CONFLICT (workspace_id, sender) DO UPDATE SET level = excluded.level, counted_at = excluded.counted_at
