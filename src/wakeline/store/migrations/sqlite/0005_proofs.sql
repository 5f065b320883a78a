-- What probes found of ways into harnesses: one row for each harness, transport and version, the newest finding.
CREATE TABLE proofs (
  workspace_id INTEGER NOT NULL,
  route TEXT NOT NULL,
  harness TEXT NOT NULL,
  transport TEXT NOT NULL,
  version TEXT NOT NULL,
  levels TEXT NOT NULL,
  verdicts TEXT NOT NULL,
  proven_by TEXT NOT NULL,
  proven_at INTEGER NOT NULL,
  PRIMARY KEY (workspace_id, route)
) STRICT, WITHOUT ROWID;
