INSERT INTO bridges ({bridge}) VALUES (?, ?, ?, ?, ?, ?, ?)
ON CONFLICT (workspace_id, host) DO UPDATE SET
  bridge_id = excluded.bridge_id, version = excluded.version, transports = excluded.transports,
  started_at = excluded.started_at, lease_until = excluded.lease_until
