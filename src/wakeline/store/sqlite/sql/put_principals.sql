INSERT INTO principals ({principal}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
ON CONFLICT (workspace_id, handle) DO UPDATE SET
  roles = excluded.roles, display_name = excluded.display_name, retired_at = excluded.retired_at,
  quiet = excluded.quiet, dnd_until = excluded.dnd_until, pulsed_at = excluded.pulsed_at
