SELECT {issuer_key} FROM issuer_keys WHERE retired_at IS NULL ORDER BY created_at
