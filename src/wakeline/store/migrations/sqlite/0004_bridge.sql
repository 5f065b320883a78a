-- Bridges: who rings inside sessions, for which host, and what a wake must remember of rings that nobody confirmed.

ALTER TABLE tokens ADD COLUMN host TEXT;

ALTER TABLE sessions ADD COLUMN harness_version TEXT;
ALTER TABLE sessions ADD COLUMN transport TEXT;
CREATE INDEX sessions_by_host ON sessions (workspace_id, host) WHERE ended_at IS NULL AND host IS NOT NULL;

ALTER TABLE wakes ADD COLUMN rings INTEGER NOT NULL DEFAULT 0;
ALTER TABLE wakes ADD COLUMN poke_at INTEGER;
ALTER TABLE wakes ADD COLUMN unsure_at INTEGER;
CREATE INDEX wakes_to_poke ON wakes (poke_at) WHERE poke_at IS NOT NULL;

CREATE INDEX deliveries_by_event ON deliveries (event_id);

-- One row for each host of a workspace: the bridge that serves it, and until when it is believed to be there.
CREATE TABLE bridges (
  workspace_id INTEGER NOT NULL,
  host TEXT NOT NULL,
  bridge_id TEXT NOT NULL,
  version TEXT NOT NULL,
  transports TEXT NOT NULL,
  started_at INTEGER NOT NULL,
  lease_until INTEGER NOT NULL,
  PRIMARY KEY (workspace_id, host)
) STRICT, WITHOUT ROWID;
