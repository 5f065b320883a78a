SELECT delivery_id FROM deliveries WHERE session_id = :session_id AND session_id IS NOT NULL AND outcome IS NULL
