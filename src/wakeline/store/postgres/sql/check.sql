SELECT current_setting('server_version'), (SELECT count(*) FROM workspaces),
  pg_is_in_recovery() OR current_setting('default_transaction_read_only')::boolean,
  (extract(epoch FROM clock_timestamp()) * 1000000)::bigint
