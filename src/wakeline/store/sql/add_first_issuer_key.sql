INSERT INTO issuer_keys ({issuer_key})
SELECT :kid, :public_key, :private_key, CAST(:created_at AS BIGINT), CAST(NULL AS BIGINT)
WHERE NOT EXISTS (SELECT 1 FROM issuer_keys WHERE retired_at IS NULL)
