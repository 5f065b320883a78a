-- In any workspace: a jti is unique across all of them, and the decision refuses a foreign one.
SELECT json_group_array(json_array({token})) FROM tokens WHERE jti IN (SELECT value FROM json_each(:tokens))
