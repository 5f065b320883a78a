-- What a session says of itself is kept apart from what was proven of the way to it: routing goes by the latter.
-- The twin of SQLite's.
ALTER TABLE sessions ADD COLUMN said_levels TEXT COLLATE "C" NOT NULL DEFAULT '{}';
