-- Bridges: who rings inside sessions, for which host, and what a wake must remember of rings that nobody confirmed.
-- The twin of SQLite's.

ALTER TABLE tokens ADD COLUMN host TEXT COLLATE "C";

ALTER TABLE sessions ADD COLUMN harness_version TEXT COLLATE "C";
ALTER TABLE sessions ADD COLUMN transport TEXT COLLATE "C";
CREATE INDEX sessions_by_host ON sessions (workspace_id, host) WHERE ended_at IS NULL AND host IS NOT NULL;

ALTER TABLE wakes ADD COLUMN rings BIGINT NOT NULL DEFAULT 0;
ALTER TABLE wakes ADD COLUMN poke_at BIGINT;
ALTER TABLE wakes ADD COLUMN unsure_at BIGINT;
CREATE INDEX wakes_to_poke ON wakes (poke_at) WHERE poke_at IS NOT NULL;

CREATE INDEX deliveries_by_event ON deliveries (event_id);

-- One row for each host of a workspace: the bridge that serves it, and until when it is believed to be there.
CREATE TABLE bridges (
  workspace_id BIGINT NOT NULL,
  host TEXT COLLATE "C" NOT NULL,
  bridge_id TEXT COLLATE "C" NOT NULL,
  version TEXT COLLATE "C" NOT NULL,
  transports TEXT COLLATE "C" NOT NULL,
  started_at BIGINT NOT NULL,
  lease_until BIGINT NOT NULL,
  PRIMARY KEY (workspace_id, host)
) WITH (fillfactor = 60);
