-- One ring per batch: NOTIFY takes a lock of the whole server at commit.  An answered post survives power loss even
-- where the server's default is not to wait for the disk.
SELECT
  CASE WHEN :batch ? 'log' THEN pg_notify('wakeline', (:batch ->> 'workspace_id') || ':' || (:batch ->> 'last_log_id')) END,
  CASE WHEN current_setting('synchronous_commit') = 'off' THEN set_config('synchronous_commit', 'on', true) END
FROM guard
