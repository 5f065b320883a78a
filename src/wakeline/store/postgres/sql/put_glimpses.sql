INSERT INTO glimpses ({glimpse})
SELECT {glimpse from item} FROM guard, jsonb_array_elements(:batch -> 'glimpses') AS items (item)
