INSERT INTO mandates ({mandate})
SELECT {mandate from item} FROM guard, jsonb_array_elements(:batch -> 'mandates') AS items (item)
ON CONFLICT (workspace_id, handle) DO UPDATE SET
  allow = excluded.allow, max_per_hour = excluded.max_per_hour, concurrency = excluded.concurrency,
  command = excluded.command, harness = excluded.harness, host = excluded.host, cwd = excluded.cwd,
  changed_by = excluded.changed_by, changed_at = excluded.changed_at
