DELETE FROM refusals WHERE minute < :before
