SELECT 1 FROM receipts WHERE box = 0 AND expires_at IS NOT NULL AND expires_at <= :now LIMIT 1
