-- Over how many rings the latency is a sum: not over those that failed, were skipped or are unknown.  What was summed up
-- before this was counted has no such number, so the average begins anew.  The twin of SQLite's.
ALTER TABLE subscriptions ADD COLUMN confirmed BIGINT NOT NULL DEFAULT 0;

UPDATE subscriptions SET latency_total = 0;
