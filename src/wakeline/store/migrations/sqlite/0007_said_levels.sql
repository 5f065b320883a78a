-- What a session says of itself is kept apart from what was proven of the way to it: routing goes by the latter.
ALTER TABLE sessions ADD COLUMN said_levels TEXT NOT NULL DEFAULT '{}';
