-- Nothing is looked up by these, and every ring, cursor and start paid for them.
DROP INDEX deliveries_by_handle;
DROP INDEX cursors_by_stream;
DROP INDEX activations_by_handle;

-- With the handle in it, an agent's own deliveries are told from the others' without looking at each row.
DROP INDEX deliveries_by_workspace;
CREATE INDEX deliveries_by_workspace ON deliveries (workspace_id, delivery_id, handle);
