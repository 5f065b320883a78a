INSERT INTO delivery_steps ({delivery_step})
SELECT {delivery_step from item} FROM guard, jsonb_array_elements(:batch -> 'delivery_steps') AS items (item)
