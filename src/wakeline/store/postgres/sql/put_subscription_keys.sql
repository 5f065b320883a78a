INSERT INTO subscription_keys ({subscription_key})
SELECT {subscription_key from item} FROM guard, jsonb_array_elements(:batch -> 'subscription_keys') AS items (item)
ON CONFLICT (workspace_id, handle, trigger, key, subscription_id) DO UPDATE SET
  active = excluded.active
