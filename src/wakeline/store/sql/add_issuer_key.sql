INSERT INTO issuer_keys ({issuer_key}) VALUES (:kid, :public_key, :private_key, :created_at, NULL)
