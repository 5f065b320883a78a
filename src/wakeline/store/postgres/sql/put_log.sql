INSERT INTO log ({log})
SELECT {log from item} FROM guard, jsonb_array_elements(:batch -> 'log') AS items (item)
