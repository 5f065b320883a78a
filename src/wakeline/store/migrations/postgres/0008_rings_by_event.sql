-- Only rings inside sessions are looked up by their event; every other delivery is spared the entry.
DROP INDEX deliveries_by_event;
CREATE INDEX deliveries_by_event ON deliveries (event_id) WHERE target = 'bridge-daemon';
