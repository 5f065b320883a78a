INSERT INTO messages ({message})
SELECT {message from item} FROM guard, jsonb_array_elements(:batch -> 'messages') AS items (item)
