INSERT INTO cursors ({cursor})
SELECT {cursor from item} FROM guard, jsonb_array_elements(:batch -> 'cursors') AS items (item)
ON CONFLICT (workspace_id, consumer_id, stream_name, subject_id) DO UPDATE SET
  last_sequence = excluded.last_sequence, last_delivery_id = excluded.last_delivery_id, last_delivered_at =
  excluded.last_delivered_at, last_error = excluded.last_error, updated_at = excluded.updated_at
