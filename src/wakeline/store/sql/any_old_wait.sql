SELECT 1 FROM waits WHERE until < :before LIMIT 1
