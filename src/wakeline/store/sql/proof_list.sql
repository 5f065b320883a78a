SELECT {proof} FROM proofs WHERE workspace_id = :workspace_id ORDER BY harness, transport, version
