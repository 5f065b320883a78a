INSERT INTO tokens ({token})
SELECT {token from item} FROM guard, jsonb_array_elements(:batch -> 'tokens') AS items (item)
ON CONFLICT (jti) DO UPDATE SET revoked_at = coalesce(tokens.revoked_at, excluded.revoked_at)
