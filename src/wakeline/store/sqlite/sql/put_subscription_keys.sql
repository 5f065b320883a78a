INSERT INTO subscription_keys ({subscription_key}) VALUES (?, ?, ?, ?, ?, ?)
ON CONFLICT (workspace_id, handle, trigger, key, subscription_id) DO UPDATE SET
  active = excluded.active
