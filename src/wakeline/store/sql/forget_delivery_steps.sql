DELETE FROM delivery_steps WHERE delivery_id IN (SELECT delivery_id FROM deliveries WHERE settled_at < :before)
