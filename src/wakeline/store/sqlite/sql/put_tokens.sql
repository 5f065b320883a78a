INSERT INTO tokens ({token}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
ON CONFLICT (jti) DO UPDATE SET revoked_at = coalesce(revoked_at, excluded.revoked_at)
