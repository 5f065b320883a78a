INSERT INTO buckets ({bucket})
SELECT {bucket from item} FROM guard, jsonb_array_elements(:batch -> 'buckets') AS items (item)
ON CONFLICT (workspace_id, sender) DO UPDATE SET level = excluded.level, counted_at = excluded.counted_at
