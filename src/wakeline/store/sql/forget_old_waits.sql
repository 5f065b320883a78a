DELETE FROM waits WHERE until < :before
