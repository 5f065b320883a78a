SELECT {token} FROM tokens WHERE jti = :jti
