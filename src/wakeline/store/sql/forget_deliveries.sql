DELETE FROM deliveries WHERE settled_at < :before
