-- What probes found of ways into harnesses: one row for each harness, transport and version, the newest finding.
CREATE TABLE proofs (
  workspace_id BIGINT NOT NULL,
  route TEXT COLLATE "C" NOT NULL,
  harness TEXT COLLATE "C" NOT NULL,
  transport TEXT COLLATE "C" NOT NULL,
  version TEXT COLLATE "C" NOT NULL,
  levels TEXT COLLATE "C" NOT NULL,
  verdicts TEXT NOT NULL,
  proven_by TEXT COLLATE "C" NOT NULL,
  proven_at BIGINT NOT NULL,
  PRIMARY KEY (workspace_id, route)
);
