UPDATE receipts SET box = 3, lapsed = 'expired'
WHERE box = 0 AND expires_at IS NOT NULL AND expires_at <= :now
