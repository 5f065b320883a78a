INSERT INTO idempotency ({idempotency})
SELECT {idempotency from item} FROM guard, jsonb_array_elements(:batch -> 'idempotency') AS items (item)
